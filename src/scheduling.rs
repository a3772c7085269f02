//! How the kernel lets the threads of a server take turns (sched(7)).

use rustix::process::getpriority_process;
use thread_priority::unix::{set_thread_priority_and_policy, thread_native_id, thread_schedule_policy};
use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};

/// Of 99: what is neither more nor less than others have (a nice value of 0).
const ORDINARY: u8 = 47;
const INTERRUPTS: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
const WAITS: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);

/// Lets a thread that is woken wait until a running one is done, instead of interrupting it
/// (`SCHED_BATCH`). It then finds more to do at once: on two busy cores an add takes a
/// quarter less CPU time. All threads that are started later inherit it.
///
/// An operator who has given this process a policy or a nice value of its own knows better.
pub fn take_turns() {
    if thread_schedule_policy() == Ok(INTERRUPTS) && getpriority_process(None) == Ok(0) {
        set(WAITS);
    }
}

/// Lets this thread interrupt others when it is woken, if the process takes turns: for the one thread that all writes
/// wait for. Else each group of them waits for a time slice of threads that render answers.
pub fn go_first() {
    if thread_schedule_policy() == Ok(WAITS) {
        set(INTERRUPTS);
    }
}

fn set(policy: ThreadSchedulePolicy) {
    let Ok(priority) = ORDINARY.try_into().map(ThreadPriority::Crossplatform) else { return };
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), priority, policy) {
        tracing::debug!(%error, ?policy, "cannot use the scheduling policy: requests may wait longer on a busy machine");
    }
}
