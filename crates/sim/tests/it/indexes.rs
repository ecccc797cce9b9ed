//! Tests of the engine with all in-tree plugins. The plugins' indexes must equal a recount after pods are assumed,
//! confirmed, forgotten, evicted, relabeled or replaced.

use harbormaster_api::{
    Namespace, Object, Pod, Service, Str, Timestamp,
    pod::{InTreeDisk, PodAffinity, PodAffinityTerm, TopologySpreadConstraint, Volume, VolumeSource},
    selector::LabelSelector,
};
use harbormaster_core::{BindOutcome, BindTask, Effect, Engine, EvictOutcome, EvictTask, Input};
use harbormaster_framework::{
    cluster::Cluster,
    index::{ClusterView, Index, IndexKind, Indexes},
    resource::Resource,
};
use harbormaster_plugins::{
    node_volume_limits::AttachedVolumes,
    pod_index::PodIndex,
    storage::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment},
    volume_binding::Supply,
    volume_users::VolumeUsers,
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_testkit::{custom::raw, labels, node, pod, random::Dice};
use serde_json::{Value, json};

const APPS: [&str; 3] = ["web", "db", "job"];
const NAMESPACES: [&str; 3] = ["default", "red", "blue"];
const DRIVER: &str = "ebs.csi.aws.com";
const KEYS: [&str; 2] = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];

struct World {
    dice: Dice,
    engine: Engine,
    now: Timestamp,
    pods: Vec<Pod>,
    bindings: Vec<BindTask>,
    evictions: Vec<EvictTask>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let engine = Engine::new(Setup::read(None, &Choices::default()).unwrap().engine);
        let mut world = Self {
            dice: Dice::new(seed),
            engine,
            now: Timestamp::from_secs(1_000_000),
            pods: Vec::new(),
            bindings: Vec::new(),
            evictions: Vec::new(),
            next: 0,
        };
        let service = Service {
            namespace: "default".into(),
            name: "web".into(),
            selector: Some(labels(&[("app", "web")])),
        };
        world.tell(Input::Object(Object::Service(service)));
        (0..3).for_each(|_| world.node_changes());
        (0..12).for_each(|_| world.storage_changes());
        world
    }

    fn tell(&mut self, input: Input) {
        self.now.0 += 300_000_000;
        self.engine.handle(input, self.now);
        self.engine.tick(self.now);
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Bind(task) => self.bindings.push(task),
                Effect::Evict(task) => self.evictions.push(task),
                Effect::PatchStatus(_)
                | Effect::Event(_)
                | Effect::CallOff(_)
                | Effect::Call(_)
                | Effect::Group(_)
                | Effect::Ask(_) => {}
            }
        }
    }

    fn step(&mut self) {
        match self.dice.below(17) {
            0..=2 => self.pod_comes(),
            3 => self.pod_goes(),
            4 => self.pod_changes(),
            5 => self.node_changes(),
            6 => self.node_goes(),
            7 => self.namespace_changes(),
            8..=10 => {
                self.engine.schedule_one(self.now);
                self.tell(Input::PodGone("nobody".into()));
            }
            11 | 12 => self.binding_ends(),
            13..=15 => self.storage_changes(),
            _ => self.eviction_ends(),
        }
    }

    fn pod_comes(&mut self) {
        self.next += 1;
        let dice = &mut self.dice;
        let select = |dice: &mut Dice| LabelSelector {
            match_labels: labels(&[("app", dice.pick(&APPS))]),
            ..LabelSelector::default()
        };
        let affinity = |dice: &mut Dice| {
            let mut term = || PodAffinityTerm {
                label_selector: Some(select(dice)),
                namespace_selector: dice.one_in(2).then(LabelSelector::default),
                topology_key: dice.pick(&KEYS).into(),
                ..PodAffinityTerm::default()
            };
            let (required, preferred) = (term(), term());
            match dice.below(3) {
                0 => PodAffinity { required: vec![required], preferred: Vec::new() },
                1 => PodAffinity { required: Vec::new(), preferred: vec![(7, preferred)] },
                _ => PodAffinity { required: vec![required], preferred: vec![(3, preferred)] },
            }
        };
        let likes = dice.one_in(5).then(|| affinity(dice));
        let avoids = dice.one_in(4).then(|| affinity(dice));
        let spread = TopologySpreadConstraint {
            max_skew: 1,
            topology_key: dice.pick(&KEYS).into(),
            hard: dice.one_in(2),
            label_selector: Some(select(dice)),
            ..TopologySpreadConstraint::default()
        };
        let spread = if dice.one_in(3) { vec![spread] } else { Vec::new() };
        let volumes = (0..dice.below(6).saturating_sub(3)).map(|_| random_volume(dice)).collect();
        let built = pod(&format!("p{}", self.next))
            .namespace(dice.pick(&NAMESPACES))
            .label("app", dice.pick(&APPS))
            .cpu(dice.pick(&["500m", "1", "2"]))
            .priority(dice.pick(&[0, 0, 5, 10]))
            .spec(|spec| {
                (spec.pod_affinity, spec.pod_anti_affinity) = (likes, avoids);
                spec.topology_spread = spread;
                spec.volumes = volumes;
            });
        let built = if dice.one_in(6) { built.on("n0") } else { built };
        let new = built.build();
        self.pods.push(new.clone());
        self.tell(Input::Pod(new));
    }

    fn some_pod(&mut self) -> Option<usize> {
        (!self.pods.is_empty()).then(|| self.dice.below(self.pods.len() as u64) as usize)
    }

    fn pod_goes(&mut self) {
        if let Some(at) = self.some_pod() {
            let gone = self.pods.swap_remove(at);
            self.tell(Input::PodGone(gone.uid));
        }
    }

    fn pod_changes(&mut self) {
        let Some(at) = self.some_pod() else { return };
        self.next += 1;
        let changed = &mut self.pods[at];
        changed.resource_version = self.next.to_string().as_str().into();
        match self.dice.below(3) {
            0 => changed.deleted = Some(self.now),
            _ => changed.labels = labels(&[("app", self.dice.pick(&APPS))]),
        }
        let changed = changed.clone();
        self.tell(Input::Pod(changed));
    }

    fn node_changes(&mut self) {
        let name = format!("n{}", self.dice.below(4));
        let mut built = node(&name).allocatable("4", "8Gi", 10).label("kubernetes.io/hostname", &name);
        if !self.dice.one_in(4) {
            built = built.label("topology.kubernetes.io/zone", self.dice.pick(&["a", "b"]));
        }
        self.tell(Input::Node(built.build()));
    }

    fn node_goes(&mut self) {
        let name: Str = format!("n{}", self.dice.below(4)).into();
        self.tell(Input::NodeGone(name));
    }

    /// Changes a class, a claim, a volume, the drivers of a node, or an attachment.
    fn storage_changes(&mut self) {
        let (dice, gone) = (&mut self.dice, self.next % 5 == 4);
        self.next += 1;
        let (name, node) = (format!("v{}", dice.below(4)), format!("n{}", dice.below(4)));
        let change = match dice.below(9) {
            0 => changed::<StorageClass>(
                gone,
                &json!({
                    "metadata": {"name": dice.pick(&["waits", "other"])},
                    "provisioner": dice.pick(&["kubernetes.io/no-provisioner", DRIVER]),
                    "volumeBindingMode": "WaitForFirstConsumer",
                }),
            ),
            1..=3 => changed::<PersistentVolumeClaim>(gone, &random_claim(dice)),
            4..=6 => changed::<PersistentVolume>(gone, &random_persistent_volume(dice, &name)),
            7 => changed::<CsiNode>(
                gone,
                &json!({
                    "metadata": {"name": node},
                    "spec": {"drivers": [{"name": DRIVER, "allocatable": {"count": dice.below(3)}}]},
                }),
            ),
            _ => changed::<VolumeAttachment>(
                gone,
                &json!({
                    "metadata": {"name": name},
                    "spec": {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": name}},
                }),
            ),
        };
        self.tell(change);
    }

    fn namespace_changes(&mut self) {
        let name: Str = self.dice.pick(&NAMESPACES).into();
        let labels = labels(&[("team", self.dice.pick(&["a", "b"]))]);
        self.tell(Input::Object(Object::Namespace(Namespace { name, labels })));
    }

    fn binding_ends(&mut self) {
        if self.bindings.is_empty() {
            return;
        }
        let at = self.dice.below(self.bindings.len() as u64) as usize;
        let task = self.bindings.swap_remove(at);
        let uid = task.pod().uid.clone();
        if self.dice.one_in(3) {
            return self.tell(Input::BindFinished { uid, outcome: BindOutcome::Failed("no".into()) });
        }
        let bound = self.pods.iter_mut().find(|pod| pod.uid == uid).map(|pod| {
            pod.node_name = Some(task.node().clone());
            pod.resource_version = format!("bound-{uid}").into();
            pod.clone()
        });
        bound.into_iter().for_each(|bound| self.tell(Input::Pod(bound)));
        self.tell(Input::BindFinished { uid, outcome: BindOutcome::Bound });
    }

    fn eviction_ends(&mut self) {
        let Some(task) = self.evictions.pop() else { return };
        let outcome = match self.dice.below(3) {
            0 => EvictOutcome::Failed("no".into()),
            _ => EvictOutcome::Evicted,
        };
        if outcome == EvictOutcome::Evicted {
            self.pods.retain(|pod| pod.uid != task.victim.uid);
            self.tell(Input::PodGone(task.victim.uid.clone()));
        }
        self.tell(Input::EvictFinished { task, outcome });
    }
}

fn changed<R: Resource>(gone: bool, object: &Value) -> Input {
    let raw = raw::<R>(object);
    if gone { Input::CustomGone(raw.key) } else { Input::Custom(raw) }
}

fn random_volume(dice: &mut Dice) -> Volume {
    let name = format!("v{}", dice.below(4));
    let source = match dice.below(4) {
        0 => VolumeSource::InTree(InTreeDisk::AwsElasticBlockStore { volume_id: name.as_str().into() }),
        1 => VolumeSource::Ephemeral,
        _ => VolumeSource::Claim(name.as_str().into()),
    };
    Volume { name: name.into(), source }
}

fn random_claim(dice: &mut Dice) -> Value {
    let name = format!("v{}", dice.below(4));
    let mut claim = json!({
        "metadata": {"name": name, "namespace": dice.pick(&NAMESPACES), "uid": name, "resourceVersion": "1"},
        "spec": {
            "storageClassName": "waits",
            "accessModes": [dice.pick(&["ReadWriteOnce", "ReadWriteOncePod"])],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    if dice.one_in(2) {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = format!("v{}", dice.below(4)).into();
    }
    claim
}

fn random_persistent_volume(dice: &mut Dice, name: &str) -> Value {
    let mut volume = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {
            "storageClassName": "waits",
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "capacity": {"storage": dice.pick(&["1Gi", "2Gi"])},
        },
        "status": {"phase": "Available"},
    });
    let place = match dice.below(3) {
        0 => json!({"key": KEYS[0], "operator": "In", "values": [dice.pick(&["a", "b"])]}),
        1 => json!({"key": KEYS[1], "operator": "In", "values": [format!("n{}", dice.below(4))]}),
        _ => json!({"key": KEYS[0], "operator": "Exists"}),
    };
    volume["spec"]["nodeAffinity"] =
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}});
    if dice.one_in(2) {
        volume["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": name});
    } else {
        volume["metadata"]["labels"] = json!({KEYS[0]: dice.pick(&["a", "a__b"])});
        volume["spec"]["awsElasticBlockStore"] = json!({"volumeID": name});
    }
    volume
}

/// Fails if the index differs from a rebuilt one. Returns the number of comparisons: 1, or 0 if the index does not
/// exist yet because no pod has needed it.
fn check_anew<I: Index + PartialEq + std::fmt::Debug>(cluster: &Cluster, when: &str) -> usize {
    let Ok(kept) = cluster.indexes().get::<I>() else { return 0 };
    let mut anew = Indexes::default();
    let known = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
    anew.add(IndexKind::of::<I>(), known).unwrap();
    assert_eq!(kept, anew.get::<I>().unwrap(), "kept (left) and rebuilt (right): {when}");
    1
}

#[test]
fn indexes_equal_a_recount_after_any_changes() {
    let (mut bound, mut evicted, mut compared) = (0, 0, 0);
    for seed in 0..4_000 {
        let mut world = World::new(seed);
        for step in 0..30 {
            let before = (world.engine.cache().pod_counts(), world.evictions.len());
            world.step();
            let after = (world.engine.cache().pod_counts(), world.evictions.len());
            bound += usize::from(after.0.0 > before.0.0);
            evicted += usize::from(after.1 > before.1);
            let cluster = &world.engine.cache().cluster;
            if let Ok(index) = cluster.indexes().get::<PodIndex>() {
                let known = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
                index.check(known).unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
            }
            // Errors persist, so not every step needs to be checked.
            if step % 6 == 5 {
                let when = format!("seed {seed}, step {step}");
                compared += check_anew::<VolumeUsers>(cluster, &when);
                compared += check_anew::<AttachedVolumes>(cluster, &when);
                compared += check_anew::<Supply>(cluster, &when);
            }
        }
    }
    assert!(
        bound > 500 && evicted > 25,
        "the sequences vary too little: {bound} steps place pods, {evicted} steps evict pods"
    );
    assert!(compared > 5_000, "the volume indexes are hardly used: {compared}");
}
