//! Measurements of a process from `/proc/PID` (see proc(5)), and SIGTERM.

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

/// Clock ticks per second in `/proc/PID/stat`: 100 on all common architectures.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Current memory (VmRSS).
    pub resident: u64,
    /// Peak memory (VmHWM).
    pub peak: u64,
}

/// CPU time of all threads of `pid`, user and system.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_cpu_time(&stat).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat: {stat}")))
}

/// Memory of `pid`.
pub fn memory(pid: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    match (field("VmRSS:"), field("VmHWM:")) {
        (Some(resident), Some(peak)) => Ok(Memory { resident, peak }),
        _ => Err(io::Error::other(format!("/proc/{pid}/status lists no memory: the process has ended"))),
    }
}

/// Sends SIGTERM to `pid`; the standard library can send only SIGKILL. Returns true if the process exists.
///
/// # Errors
/// If the program `kill` cannot be run.
pub fn terminate(pid: u32) -> io::Result<bool> {
    Ok(Command::new("kill").args(["-TERM", &pid.to_string()]).status()?.success())
}

/// The last `count` lines of a log.
pub(crate) fn last_lines(log: &str, count: usize) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The name in parentheses may contain anything; utime and stime are the 14th and 15th fields, the 12th and 13th
    // after the name.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_after_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 17 0 0 20 0 9 0 100 1 2";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(2670)));
        assert_eq!(parse_cpu_time("nonsense"), None);
    }

    #[test]
    fn memory_and_cpu_time_of_a_running_process_can_be_read() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        assert!(cpu_time(pid).is_ok());
        assert!(cpu_time(u32::MAX).is_err());
    }
}
