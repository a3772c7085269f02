//! How the kernel lets the threads of a server take turns.

use rustix::process::getpriority_process;
use thread_priority::unix::{set_thread_priority_and_policy, thread_native_id, thread_schedule_policy};
use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};

/// Of 99: what is neither more nor less than others have (a nice value of 0).
const ORDINARY: u8 = 47;

/// Lets a thread that is woken wait until a running one is done, instead of interrupting it
/// (`SCHED_BATCH`, sched(7)). It then finds more to do at once: on two busy cores an add takes a
/// quarter less CPU time. All threads that are started later inherit it.
///
/// An operator who has given this process a policy or a nice value of its own knows better.
pub(super) fn take_turns() {
    let ordinary = thread_schedule_policy() == Ok(ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other));
    if !ordinary || getpriority_process(None) != Ok(0) {
        return;
    }
    let batch = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
    let Ok(priority) = ORDINARY.try_into().map(ThreadPriority::Crossplatform) else { return };
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), priority, batch) {
        tracing::debug!(%error, "cannot use the scheduling policy SCHED_BATCH: threads may interrupt each other more often");
    }
}
