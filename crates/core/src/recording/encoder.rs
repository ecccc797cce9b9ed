//! Writes the lines of a recording.

use std::{
    collections::hash_map::Entry,
    io::{self, Write},
    sync::Arc,
};

use harbormaster_api::{Object, ObjectKey, Pod, PodSpec, Str, Timestamp};
use harbormaster_framework::resource::CustomKey;
use rustc_hash::FxHashMap;

use super::{
    Entry as RecordingEntry, Sink,
    line::{Line, RecordedInput, Setup},
};

/// Maximum number of specs that are remembered. Beyond it, specs that recur are written again.
const SPECS: usize = 16_384;

/// Writes [entries](RecordingEntry) as lines of JSON, each spec of pods once per file. It keeps the latest version of
/// every object, and can therefore begin a new file at any time.
#[derive(Default)]
pub struct Encoder {
    specs: FxHashMap<Arc<PodSpec>, u32>,
    /// Number of specs in the current file.
    written: u32,
    setup: Option<Setup>,
    /// Number of the current file.
    file: u64,
    /// Objects, each with the number of the change that created it. `None` if no file is ever begun again.
    objects: Option<FxHashMap<ObjectId, (u64, RecordedInput)>>,
    changes: u64,
    /// Time of the last entry that has one.
    now: Timestamp,
    /// True unless effects of the last attempt follow.
    is_settled: bool,
}

/// Identity of an object.
#[derive(PartialEq, Eq, Hash)]
enum ObjectId {
    Pod(Str),
    Node(Str),
    Object(ObjectKey),
    Custom(CustomKey),
}

impl Encoder {
    /// Returns an encoder that can begin new files.
    pub fn of_files() -> Self {
        Self { objects: Some(FxHashMap::default()), ..Self::default() }
    }

    /// Returns true unless effects of the last attempt follow. Then, a new file would begin with a pod whose decision
    /// is in the old file.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Number of the current file; 0 before the first entry.
    pub fn file(&self) -> u64 {
        self.file
    }

    /// Notes that a file is missing. A replay finds out by the numbers of the files.
    pub fn leave_out_a_file(&mut self) {
        self.file += 1;
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// If `to` fails.
    pub fn write(&mut self, entry: RecordingEntry, to: &mut impl Write) -> io::Result<()> {
        let RecordingEntry(line) = entry;
        self.now = line.time().unwrap_or(self.now);
        self.is_settled = !matches!(line, Line::Attempt(..) | Line::Extenders(_));
        match line {
            Line::Setup(_, setup) => {
                self.file += 1;
                self.setup = Some(setup.clone());
                write_line(&Line::Setup(self.file, setup), to)
            }
            Line::Reconfigure(at, setup) => {
                self.setup = Some(setup.clone());
                write_line(&Line::Reconfigure(at, setup), to)
            }
            Line::Input(at, RecordedInput::Pod(_, pod)) => {
                let (spec, number) = self.number_of(pod.spec.clone(), to)?;
                self.keep(RecordedInput::Pod(0, Pod { spec, ..pod.clone() }));
                let pod = Pod { spec: Arc::default(), ..pod };
                write_line(&Line::Input(at, RecordedInput::Pod(number, pod)), to)
            }
            Line::Input(at, input) => {
                self.keep(input.clone());
                write_line(&Line::Input(at, input), to)
            }
            line => write_line(&line, to),
        }
    }

    /// Begins a new file: writes the settings and all objects.
    ///
    /// # Errors
    /// If `to` fails.
    pub fn begin_file(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.specs.clear();
        self.written = 0;
        let Some(setup) = self.setup.clone() else { return Ok(()) };
        self.file += 1;
        write_line(&Line::Setup(self.file, setup), to)?;
        let objects = self.objects.take().unwrap_or_default();
        let mut sorted: Vec<&(u64, RecordedInput)> = objects.values().collect();
        sorted.sort_unstable_by_key(|(change, _)| *change);
        let written = sorted.into_iter().try_for_each(|(_, object)| {
            let object = match object.clone() {
                RecordedInput::Pod(_, pod) => {
                    let (_, number) = self.number_of(pod.spec.clone(), to)?;
                    RecordedInput::Pod(number, Pod { spec: Arc::default(), ..pod })
                }
                object => object,
            };
            write_line(&Line::Base(self.now, object), to)
        });
        self.objects = Some(objects);
        written
    }

    /// Writes a spec unless the file contains it. Returns the spec, shared with equal ones, and its number.
    fn number_of(&mut self, spec: Arc<PodSpec>, to: &mut impl Write) -> io::Result<(Arc<PodSpec>, u32)> {
        if let Some((spec, number)) = self.specs.get_key_value(&spec) {
            return Ok((spec.clone(), *number));
        }
        if self.specs.len() >= SPECS {
            self.specs.clear();
        }
        self.written += 1;
        write_line(&Line::Spec(self.written, spec.clone()), to)?;
        self.specs.insert(spec.clone(), self.written);
        Ok((spec, self.written))
    }

    fn keep(&mut self, change: RecordedInput) {
        let Some(objects) = &mut self.objects else { return };
        let id = match &change {
            RecordedInput::Pod(_, pod) => ObjectId::Pod(pod.uid.clone()),
            RecordedInput::PodGone(uid) => ObjectId::Pod(uid.clone()),
            RecordedInput::Node(node) => ObjectId::Node(node.name.clone()),
            RecordedInput::NodeGone(name) => ObjectId::Node(name.clone()),
            RecordedInput::Object(object) => ObjectId::Object(Object::key(object)),
            RecordedInput::ObjectGone(key) => ObjectId::Object(key.clone()),
            RecordedInput::Custom(object) => ObjectId::Custom(object.key.clone()),
            RecordedInput::CustomGone(key) => ObjectId::Custom(key.clone()),
            RecordedInput::BindFinished(..)
            | RecordedInput::EvictFinished(..)
            | RecordedInput::Answered(..) => return,
        };
        let is_gone = match &change {
            RecordedInput::Pod(_, pod) => pod.is_terminal(),
            RecordedInput::Node(_) | RecordedInput::Object(_) | RecordedInput::Custom(_) => false,
            _ => true,
        };
        if is_gone {
            objects.remove(&id);
            return;
        }
        self.changes += 1;
        match objects.entry(id) {
            Entry::Occupied(mut known) => known.get_mut().1 = change,
            Entry::Vacant(new) => {
                new.insert((self.changes, change));
            }
        }
    }
}

fn write_line(line: &Line, to: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// A recording that is written immediately, for tests and other hosts without time limits.
pub struct Lines<W> {
    encoder: Encoder,
    to: W,
    /// The error that ended the recording.
    failed: Option<io::Error>,
}

impl<W: Write> Lines<W> {
    /// Returns a recording that is written to `to`.
    pub fn to(to: W) -> Self {
        Self { encoder: Encoder::default(), to, failed: None }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }
}

impl<W: Write> Sink for Lines<W> {
    /// Writes an entry. An error must not keep pods from being scheduled, so it ends only the recording.
    fn put(&mut self, entry: RecordingEntry) {
        if self.failed.is_none() {
            self.failed = self.encoder.write(entry, &mut self.to).err();
        }
    }
}
