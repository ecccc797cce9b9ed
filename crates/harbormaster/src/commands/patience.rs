//! Scheduling of the process by the kernel.
//!
//! The API server often runs on the same machine. When it sends one of several messages, the kernel prefers the thread
//! that waited for it: the API server is interrupted, the message is handled alone, and soon the thread is woken for
//! the next message. Each time, both find the processor's caches filled by the other.

use rustix::process::getpriority_process;
use thread_priority::{
    NormalThreadSchedulePolicy::{Batch, Other},
    ThreadPriority, ThreadPriorityOsValue,
    ThreadSchedulePolicy::Normal,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

/// Makes a thread that is woken wait while another one uses its slice of the processor, a few milliseconds at most
/// (`SCHED_BATCH`). The share of the processor stays the same. Applies to the current thread and the threads that it
/// creates later.
///
/// Does nothing if the process was started with a policy or a nice value of its own.
pub(super) fn let_others_finish() {
    let is_ordinary = thread_schedule_policy().is_ok_and(|policy| policy == Normal(Other))
        && getpriority_process(None) == Ok(0);
    // The value is the nice value.
    let unchanged = ThreadPriority::Os(ThreadPriorityOsValue::default());
    if is_ordinary
        && let Err(error) = set_thread_priority_and_policy(thread_native_id(), unchanged, Normal(Batch))
    {
        tracing::debug!(v = 2, err = %error, "The kernel does not allow the policy SCHED_BATCH");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    /// Nice value and policy of the current thread; see proc_pid_stat(5).
    fn scheduling() -> (String, String) {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (after_name[16].to_owned(), after_name[38].to_owned())
    }

    const ORDINARY: &str = "0";
    const BATCH: &str = "3";

    #[test]
    fn threads_have_the_policy_and_keep_their_nice_value() {
        let before = scheduling();
        let after = thread::spawn(|| {
            let_others_finish();
            thread::spawn(scheduling).join().unwrap()
        });
        let after = after.join().unwrap();
        if before == ("0".to_owned(), ORDINARY.to_owned()) {
            assert_eq!(after, ("0".to_owned(), BATCH.to_owned()));
        } else {
            assert_eq!(after, before, "whoever started the tests has decided");
        }
    }
}
