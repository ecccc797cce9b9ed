//! A program that answers requests line by line.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;

/// Capacity of each pipe's buffer, in bytes.
const BUFFER: usize = 1 << 16;

/// A running program that reads one JSON document per line and answers each with one line. Dropping it kills the
/// process.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl LineProcess {
    /// Starts the program.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a child process without pipes"));
        };
        Ok(Self {
            child,
            input: BufWriter::with_capacity(BUFFER, input),
            output: BufReader::with_capacity(BUFFER, output),
            line: Vec::new(),
        })
    }

    /// Sends a request and waits for the response. Returns `None` if the process closes its output, usually by exiting,
    /// without a response.
    pub(crate) fn ask(&mut self, request: &impl Serialize) -> io::Result<Option<&[u8]>> {
        serde_json::to_writer(&mut self.input, request)?;
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        self.line.clear();
        let length = self.output.read_until(b'\n', &mut self.line)?;
        Ok((length > 0).then_some(&self.line))
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
