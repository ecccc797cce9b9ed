//! Metrics of the process from Linux's `/proc`. On other systems they stay at zero.

use std::fs;

use prometheus::{Counter, Gauge};

use crate::{families as table, series::Registry};

/// Clock ticks per second. The kernel reports processor time to programs in ticks, at this rate on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// Value of an unlimited resource: the largest 64-bit number, as in Go.
const UNLIMITED: f64 = u64::MAX as f64;

/// Metric families for the process.
#[derive(Debug)]
pub(crate) struct Process {
    cpu_seconds: Counter,
    open_fds: Gauge,
    max_fds: Gauge,
    virtual_memory: Gauge,
    max_virtual_memory: Gauge,
    resident_memory: Gauge,
    start_time: Gauge,
    received: Counter,
    sent: Counter,
}

/// Data from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProcStat {
    cpu_seconds: f64,
    virtual_memory: f64,
    /// Start of the process in seconds since the machine booted.
    started: f64,
}

impl Process {
    pub(crate) fn new(registry: &Registry) -> Self {
        let process = Self {
            cpu_seconds: registry.counter(&table::CPU_SECONDS),
            open_fds: registry.gauge(&table::OPEN_FDS),
            max_fds: registry.gauge(&table::MAX_FDS),
            virtual_memory: registry.gauge(&table::VIRTUAL_MEMORY),
            max_virtual_memory: registry.gauge(&table::MAX_VIRTUAL_MEMORY),
            resident_memory: registry.gauge(&table::RESIDENT_MEMORY),
            start_time: registry.gauge(&table::START_TIME),
            received: registry.counter(&table::RECEIVED_BYTES),
            sent: registry.counter(&table::SENT_BYTES),
        };
        process.refresh();
        process
    }

    /// Processor time in seconds, and resident memory in bytes.
    pub(crate) fn usage(&self) -> (f64, f64) {
        (self.cpu_seconds.get(), self.resident_memory.get())
    }

    /// Reads the numbers again. Numbers that cannot be read keep their values.
    pub(crate) fn refresh(&self) {
        if let Some(stat) = text("/proc/self/stat").and_then(|stat| parse_stat(&stat)) {
            raise_to(&self.cpu_seconds, stat.cpu_seconds);
            self.virtual_memory.set(stat.virtual_memory);
            if let Some(boot) = text("/proc/stat").and_then(|stat| boot_time(&stat)) {
                self.start_time.set(boot + stat.started);
            }
        }
        if let Some(resident) = text("/proc/self/status").and_then(|status| resident(&status)) {
            self.resident_memory.set(resident);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // Reading the directory opens one more descriptor.
            self.open_fds.set((open.count() as f64 - 1.0).max(0.0));
        }
        if let Some(limits) = text("/proc/self/limits") {
            limit(&limits, "Max open files").into_iter().for_each(|most| self.max_fds.set(most));
            let memory = limit(&limits, "Max address space");
            memory.into_iter().for_each(|most| self.max_virtual_memory.set(most));
        }
        if let Some((received, sent)) = text("/proc/self/net/netstat").and_then(|stat| traffic(&stat)) {
            raise_to(&self.received, received);
            raise_to(&self.sent, sent);
        }
    }
}

fn raise_to(counter: &Counter, to: f64) {
    counter.inc_by((to - counter.get()).max(0.0));
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Parses `/proc/PID/stat`. The second field, a name in parentheses, may contain anything.
fn parse_stat(stat: &str) -> Option<ProcStat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The manual page numbers these fields from 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some(ProcStat {
        cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
        started: field(22)? / TICKS_PER_SECOND,
        virtual_memory: field(23)?,
    })
}

/// Resident memory in bytes from `/proc/PID/status`.
fn resident(status: &str) -> Option<f64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kib.trim().trim_end_matches(" kB").parse::<f64>().ok()? * 1024.0)
}

/// Boot time in seconds since 1970 from `/proc/stat`.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Soft limit with the given name from `/proc/PID/limits`.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

/// Bytes received and sent from `/proc/PID/net/netstat`: a line of names, then a line of numbers.
fn traffic(netstat: &str) -> Option<(f64, f64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        numbers.split_whitespace().nth(at)?.parse::<f64>().ok()
    };
    Some((of("InOctets")?, of("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use super::*;

    #[test]
    fn fields_are_numbered_from_the_end_of_the_name() {
        let stat = "42 (a ) b) S 1 2 3 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 12345 1048576 300 18446744073709551615";
        let stat = parse_stat(stat).unwrap();
        assert_eq!((stat.cpu_seconds, stat.started), (3.0, 123.45));
        assert_eq!(stat.virtual_memory, 1_048_576.0);
        assert!(parse_stat("42 (x) S 1").is_none());
    }

    #[test]
    fn values_in_proc_files_are_found_by_name() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\nMax address space unlimited unlimited bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(1.844_674_407_370_955_2e19));
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 7 8 9\n";
        assert_eq!(traffic(netstat), Some((8.0, 9.0)));
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1.7e9));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_started_before_now_and_uses_memory() {
        let process = Process::new(&Registry::of(Features::default()));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - process.start_time.get();
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        assert!(process.resident_memory.get() > 100_000.0 && process.open_fds.get() >= 3.0);
    }
}
