//! Recordings in files, replayed.

use std::{path::Path, sync::Arc};

use harbormaster_api::{Labels, Node, Pod, PodSpec, Resources, pod::Container, pod::OwnerReference};
use harbormaster_core::{
    BindOutcome, EngineConfig, Input,
    recording::{Entry, Mode, Progress, Recorder, Replayer, Sink},
};
use serde_json::Value;

use super::{files::Run, pipe::Batch, *};
use crate::{clock::system_time, run::tests::first_fit};

fn start(directory: &Path, max_size: u64) -> (Pipe, Recording) {
    let max_age = Duration::from_secs(3600);
    let config = RecordingConfig { directory: directory.to_owned(), max_size, max_age };
    Recording::start(config, system_time()).unwrap()
}

/// A pod as a Deployment creates it.
fn pod(number: usize) -> Pod {
    let resources = |cpu, memory| vec![("cpu".into(), cpu), ("memory".into(), memory)];
    let workload = number % 3;
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        containers: vec![Container {
            name: "app".into(),
            image: format!("registry.example.com/team/app-{workload}:v1.2.3").into(),
            requests: resources(1, 64 << 20),
            limits: resources(2, 128 << 20),
            ..Container::default()
        }],
        ..PodSpec::default()
    };
    let random = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let uid = uuid::Uuid::from_u64_pair(random.rotate_left(23) ^ 0x1234_5678_9abc_def0, random);
    let hash = format!("{:09x}", workload * 0x1234_5678);
    let labels: Labels =
        [("app", format!("web-{workload}").as_str()), ("pod-template-hash", &hash)].into_iter().collect();
    Pod {
        uid: uid.to_string().into(),
        namespace: "web".into(),
        name: format!("web-{workload}-{hash}-{:05x}", random >> 44).into(),
        resource_version: (100_000 + number * 7).to_string().into(),
        labels,
        created: Some(system_time()),
        controller: Some(OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: format!("web-{workload}-{hash}").into(),
            uid: format!("0d0d0d0d-1111-4222-8333-00000000000{workload}").into(),
        }),
        spec: Arc::new(spec),
        ..Pod::default()
    }
}

/// Schedules pods, as the driver does.
fn schedule(engine: &mut Recorder<Pipe>, pods: std::ops::Range<usize>) {
    for number in pods {
        let mut pod = pod(number);
        engine.handle(Input::Pod(pod.clone()), system_time());
        engine.tick(system_time());
        engine.schedule_one_by(&mut system_time).unwrap();
        assert!(!engine.take_effects().is_empty());
        engine.tick(system_time());
        engine
            .handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, system_time());
        engine.tick(system_time());
        engine.take_effects();
        pod.node_name = Some("node-0".into());
        pod.resource_version = (100_003 + number * 7).to_string().into();
        engine.handle(Input::Pod(pod), system_time());
        engine.tick(system_time());
    }
}

fn recorder(pipe: Pipe) -> Recorder<Pipe> {
    let mut engine = Recorder::new(EngineConfig::new(vec![first_fit()]), Some(pipe));
    let allocatable =
        Resources { milli_cpu: 1 << 40, memory: 1 << 60, pods: 1 << 40, ..Resources::default() };
    let node = Node { name: "node-0".into(), allocatable, ..Node::default() };
    engine.handle(Input::Node(node), system_time());
    engine
}

fn size(run: &Run) -> u64 {
    run.files.iter().map(|(_, path)| std::fs::metadata(path).unwrap().len()).sum()
}

/// Replays files. Returns the numbers of attempts and the last progress.
fn replay(files: &[(u64, PathBuf)]) -> (usize, Progress, usize) {
    let mode = if files[0].0 == 1 { Mode::Exact } else { Mode::Compare };
    let configure = |_: Option<&Value>| Ok(EngineConfig::new(vec![first_fit()]));
    let mut replayer = Replayer::new(Box::new(configure), mode, None);
    let (mut line, mut progress) = (String::new(), Progress::Played);
    for (_, path) in files {
        replayer.begin_file();
        let mut lines = files::Lines::open(path).unwrap();
        while lines.next(&mut line).unwrap() {
            progress = replayer.play(&line).unwrap();
        }
        assert!(line.is_empty() && lines.is_complete());
    }
    assert!(replayer.comparison().elsewhere.is_empty());
    (replayer.summary().attempts, progress, replayer.comparison().same)
}

#[test]
fn a_recording_takes_at_most_200_bytes_per_pod_and_is_replayed() {
    const PODS: usize = 3000;
    let directory = tempfile::tempdir().unwrap();
    let (pipe, recording) = start(directory.path(), 64 << 20);
    let mut engine = recorder(pipe);
    schedule(&mut engine, 0..PODS);
    drop(engine);
    recording.finish();
    let runs = files::runs(directory.path()).unwrap();
    let [run] = &runs[..] else { panic!("{runs:?}") };
    let per_pod = size(run) / PODS as u64;
    println!("{per_pod} bytes per pod");
    assert!(per_pod <= 200, "{per_pod} bytes per pod");
    assert_eq!(replay(&run.files).0, PODS);
}

#[test]
fn the_oldest_files_are_deleted_and_the_others_can_be_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let max_size = 512 << 10;
    let (pipe, recording) = start(directory.path(), max_size);
    let mut engine = recorder(pipe);
    for part in 0..12 {
        schedule(&mut engine, part * 400..(part + 1) * 400);
        // The thread writes in the meantime.
        std::thread::sleep(Duration::from_millis(400));
        let gone = (part * 400..(part + 1) * 400).map(|number| Input::PodGone(pod(number).uid));
        gone.for_each(|input| engine.handle(input, system_time()));
    }
    drop(engine);
    recording.finish();
    let runs = files::runs(directory.path()).unwrap();
    let [run] = &runs[..] else { panic!("{runs:?}") };
    let numbers: Vec<u64> = run.files.iter().map(|(number, _)| *number).collect();
    assert!(numbers[0] > 1 && numbers.len() >= 3, "{numbers:?}");
    assert!(numbers.is_sorted_by(|a, b| *b == *a + 1), "{numbers:?}");
    assert!(size(run) < max_size * 5 / 4, "{}", size(run));
    assert!(replay(&run.files).2 >= 400);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_and_a_gap_begins_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let config = RecordingConfig { directory: file, max_size: 1 << 20, max_age: Duration::from_secs(60) };
    let error =
        Recording::start(config, system_time()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("/file: "), "{error}");

    let kept = Kept::default();
    let mut engine = Recorder::new(EngineConfig::new(vec![first_fit()]), Some(kept.clone()));
    engine.tick(system_time());
    engine.handle(Input::Pod(pod(0)), system_time());
    engine.handle(Input::Pod(pod(1)), system_time());
    let entries = std::mem::take(&mut *kept.0.lock().unwrap());
    let max_age = Duration::from_secs(60);
    let config = RecordingConfig { directory: directory.path().to_owned(), max_size: 1 << 20, max_age };
    let mut ring = Ring::create(config, system_time()).unwrap();
    // Calls were lost before the second pod.
    ring.take(Batch { entries, gap: Some((5, 3)), ..Batch::default() });
    ring.end();
    let runs = files::runs(directory.path()).unwrap();
    assert_eq!(runs[0].files.len(), 2, "{runs:?}");
    assert_eq!(replay(&runs[0].files[..1]).1, Progress::Gap(5));
    let mut lines = files::Lines::open(&runs[0].files[1].1).unwrap();
    let (mut text, mut line) = (String::new(), String::new());
    while lines.next(&mut line).unwrap() {
        text += &line;
    }
    assert_eq!(text.matches("\"base\"").count(), 2, "the pod is known that arrived in the gap: {text}");
}

/// Entries that are kept.
#[derive(Clone, Default)]
struct Kept(Arc<std::sync::Mutex<Vec<Entry>>>);

impl Sink for Kept {
    fn put(&mut self, entry: Entry) {
        self.0.lock().unwrap().push(entry);
    }
}
