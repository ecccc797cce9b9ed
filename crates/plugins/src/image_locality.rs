//! ImageLocality: prefers nodes that already have the pod's images.
//!
//! # What it does
//! Extension point: Score. Compares the images of the pod's containers, init containers and image volumes with the
//! images that the node reports.
//!
//! # Rejects when
//! Never.
//!
//! # Scores by
//! The total size of the pod's images that are on the node. Each size is multiplied by the fraction of nodes that have
//! the image, so that one node does not attract all pods. A total of up to 23 MiB scores 0, a total of at least 1000
//! MiB per container scores 100, and the score grows linearly in between. An image volume counts as a container; in
//! Kubernetes 1.36, it only adds to the size. In the pod, an image name without a tag or digest means `:latest`; the
//! names that nodes report are compared unchanged.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! No differences.

use std::borrow::Cow;

use harbormaster_api::{PodSpec, Release, Str, requests};
use harbormaster_framework::prelude::*;

use crate::sign;

const MIB: i64 = 1 << 20;
/// Size in bytes below which the score is 0.
const LEAST: i64 = 23 * MIB;
/// Size in bytes per container at which the score is 100.
const MOST_PER_CONTAINER: i64 = 1000 * MIB;

/// Prefers nodes that have the pod's images. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality {
    /// True if image volumes count as containers.
    counts_image_volumes: bool,
}

impl Plugin for ImageLocality {
    const NAME: &'static str = "ImageLocality";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        let spec: &PodSpec = &pod.spec;
        images_of(spec).for_each(|image| {
            reads.of(image);
        });
        reads.of(&self.containers_of(spec));
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::images(pod)])
    }
}

impl Build for ImageLocality {
    type Args = NoArgs;

    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { counts_image_volumes: cx.features.release() >= Release::V1_37 })
    }
}

impl Score<Row> for ImageLocality {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(self.images(cx).score(node))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let mut images = self.images(cx);
        // An image that is on no node adds nothing to any score.
        images.names.retain(|name| cx.nodes.has_image(name));
        for (row, score) in scores.iter_mut() {
            *score = images.score(cx.nodes.node(row));
        }
        Ok(())
    }
}

/// Images of the pod, with normalized names.
struct Images<'a> {
    names: Vec<Cow<'a, str>>,
    containers: i64,
    nodes: f64,
}

fn images_of(spec: &PodSpec) -> impl Iterator<Item = &Str> {
    requests::container_images(spec).chain(requests::volume_images(spec))
}

impl ImageLocality {
    fn images<'a>(&self, cx: &RowCycle<'a>) -> Images<'a> {
        let spec: &PodSpec = &cx.pod.derived.spec;
        Images {
            names: images_of(spec).map(|image| requests::normalized_image(image)).collect(),
            containers: self.containers_of(spec),
            nodes: cx.nodes.node_count() as f64,
        }
    }

    /// Returns the number of containers, including image volumes that count as containers.
    fn containers_of(&self, spec: &PodSpec) -> i64 {
        let volumes = if self.counts_image_volumes { requests::volume_images(spec).count() } else { 0 };
        (spec.containers.len() + spec.init_containers.len() + volumes) as i64
    }
}

impl Images<'_> {
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let found = self.names.iter().filter_map(|name| node.image(name));
        let shares = found.map(|i| (i.size_bytes as f64 * (i.nodes as f64 / self.nodes)) as i64);
        let size = shares.fold(0, i64::saturating_add);
        let most = MOST_PER_CONTAINER * self.containers.max(1);
        100 * (size.clamp(LEAST, most) - LEAST) / (most - LEAST)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{features::Features, pod::VolumeSource};
    use harbormaster_testkit::{NodeBuilder, PodBuilder, Trial, cluster, node, pod};

    use super::*;

    fn scores<const N: usize>(nodes: [NodeBuilder; N], pod: PodBuilder) -> Vec<i64> {
        scores_in(Release::V1_36, nodes, pod)
    }

    fn scores_in<const N: usize>(release: Release, nodes: [NodeBuilder; N], pod: PodBuilder) -> Vec<i64> {
        let cx = BuildCycle { features: Features::of(release) };
        let trial = Trial::of(ImageLocality::build(NoArgs, &cx).unwrap());
        trial.scores(&cluster(nodes, []), &pod.info()).unwrap().unwrap()
    }

    fn two(first: &str, second: &str) -> PodBuilder {
        pod("p").image(first).container().image(second)
    }

    #[test]
    fn sizes_are_weighted_by_the_fraction_of_nodes_that_have_the_image() {
        let small_and_large = [
            node("n1").image("gcr.io/40:latest", 40 * MIB),
            node("n2").image("gcr.io/250:latest", 250 * MIB),
        ];
        assert_eq!(scores(small_and_large, two("gcr.io/40", "gcr.io/250")), [0, 5]);
        let both_on_one =
            [node("n1").image("gcr.io/40:v1", 40 * MIB).image("gcr.io/300:v1", 300 * MIB), node("n2")];
        assert_eq!(scores(both_on_one, two("gcr.io/40:v1", "gcr.io/300:v1")), [7, 0]);
        let huge = [node("n1").image("gcr.io/4000:latest", 4000 * MIB), node("n2"), node("n3")];
        assert_eq!(scores(huge, two("gcr.io/10", "gcr.io/4000")), [66, 0, 0]);
        let everywhere = [node("n1").image("x:1", 2000 * MIB), node("n2").image("x:1", 2000 * MIB)];
        assert_eq!(scores(everywhere, pod("p").image("x:1")), [100, 100]);
    }

    #[test]
    fn image_volumes_add_size_and_count_as_containers_from_1_37() {
        for (release, expected) in [(Release::V1_36, 12), (Release::V1_37, 6)] {
            let nodes = [node("n1").image("gcr.io/300:latest", 300 * MIB), node("n2")];
            let mounts = pod("p").image("none").volume(VolumeSource::Image("gcr.io/300".into()));
            assert_eq!(scores_in(release, nodes, mounts), [expected, 0], "{release}");
        }
    }

    #[test]
    fn init_containers_count_as_containers() {
        let with_image = || [node("n1").image("image:latest", 1023 * MIB)];
        assert_eq!(scores(with_image(), pod("p")), [100]);
        assert_eq!(scores(with_image(), pod("p").image("other").init_container(&[])), [50]);
    }

    #[test]
    fn only_a_name_with_neither_tag_nor_digest_means_latest() {
        for (image, on_node, found) in [
            ("gcr.io/10", "gcr.io/10:latest", true),
            ("gcr.io/10:v1", "gcr.io/10:latest", false),
            ("host:5000/10", "host:5000/10:latest", true),
            ("gcr.io/10@sha256:abc", "gcr.io/10@sha256:abc", true),
            ("gcr.io/10", "gcr.io/10", false),
        ] {
            let score = scores([node("n").image(on_node, 2000 * MIB)], pod("p").image(image))[0];
            assert_eq!(score, if found { 100 } else { 0 }, "{image} {on_node}");
        }
    }
}
