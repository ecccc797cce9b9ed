//! Container images in pods and on nodes.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World};

/// Images: their names and sizes in MiB.
const IMAGES: &[(&[&str], u64)] = &[
    (
        &[
            "docker.io/library/nginx:latest",
            "docker.io/library/nginx@sha256:0000000000000000000000000000000000000000000000000000000000000001",
        ],
        60,
    ),
    (&["registry.example.com:5000/team/app:v1", "registry.example.com:5000/team/app:stable"], 400),
    (&["registry.example.com:5000/team/app:latest"], 1200),
    (&["tiny:1"], 5),
    (&["huge:latest"], 3000),
    (&["exact:23"], 23),
];

/// References to images in containers and volumes, some without a tag or with a digest.
const REFERENCES: &[&str] = &[
    "docker.io/library/nginx",
    "docker.io/library/nginx:latest",
    "docker.io/library/nginx@sha256:0000000000000000000000000000000000000000000000000000000000000001",
    "registry.example.com:5000/team/app",
    "registry.example.com:5000/team/app:v1",
    "registry.example.com:5000/team/app:stable",
    "tiny:1",
    "huge",
    "exact:23",
    "nowhere:1",
];

/// Images on nodes and in pods.
pub(super) struct Images;

impl Flavour for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn node(&self, random: &mut Random, world: &World, node: &mut Value) {
        let count = random.below(IMAGES.len());
        for (names, mebibytes) in random.sample(IMAGES, count) {
            // Nodes may report different sizes for an image. A scheduler uses the size reported by the node that was
            // added first, but the verdict oracle's snapshot uses each node's own size, so different sizes are
            // generated only for a real API server.
            let differs = random.chance(15) && world.admitted;
            let bytes = mebibytes * 1024 * 1024 + if differs { 7_777_777 } else { 0 };
            push(&mut node["status"]["images"], json!({"names": names, "sizeBytes": bytes}));
        }
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        for index in 0..if random.chance(30) { random.range(1, 2) } else { 0 } {
            let image = json!({"reference": random.pick(REFERENCES), "pullPolicy": "IfNotPresent"});
            push(&mut pod["spec"]["volumes"], json!({"name": format!("image-{index}"), "image": image}));
        }
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                if random.chance(70) {
                    container["image"] = (*random.pick(REFERENCES)).into();
                }
            }
        }
    }
}
