//! CPU time: of the generator's own threads, and of the server's processes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// The kernel's unit of times in /proc (`USER_HZ`, 100 on every Linux architecture; proc(5)).
const TICKS_PER_SEC: u64 = 100;

/// CPU time of the calling thread so far.
#[cfg(target_os = "linux")]
pub fn of_this_thread() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(target_os = "linux"))]
pub fn of_this_thread() -> Option<Duration> {
    None
}

/// CPU time so far of a process and all its descendants, including their ended children (a Redis forks a process for
/// each rewrite of its log).
pub fn of_process_tree(root: u32) -> Result<Duration, String> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").map_err(|e| format!("cannot read /proc: {e}"))?.flatten() {
        // A process may end during the search.
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some(process) =
                fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| Process::read(&stat))
        {
            processes.insert(pid, process);
        }
    }
    if !processes.contains_key(&root) {
        return Err(format!("the process {root} does not exist"));
    }
    let ticks: u64 = tree(&processes, root).iter().filter_map(|pid| processes.get(pid)).map(|p| p.ticks).sum();
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SEC))
}

/// The needed fields of a process's /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Its own time, including its ended and awaited children.
    ticks: u64,
}

impl Process {
    fn read(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, and may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = field(14)? + field(15)? + field(16)? + field(17)?;
        Some(Self { parent: u32::try_from(field(4)?).ok()?, ticks })
    }
}

fn tree(processes: &HashMap<u32, Process>, root: u32) -> HashSet<u32> {
    let mut tree = HashSet::from([root]);
    loop {
        let size = tree.len();
        let children: Vec<u32> =
            processes.iter().filter(|(_, process)| tree.contains(&process.parent)).map(|(pid, _)| *pid).collect();
        tree.extend(children);
        if tree.len() == size {
            return tree;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_any_name_is_read() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5 6 7";
        assert_eq!(Process::read(stat), Some(Process { parent: 7, ticks: 127 }));
        assert_eq!(Process::read("42 (x) S 7"), None);
    }

    #[test]
    fn a_process_tree_has_exactly_its_descendants() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
        let processes = parents.map(|(pid, parent)| (pid, Process { parent, ticks: 1 })).into();
        assert_eq!(tree(&processes, 10), HashSet::from([10, 11, 12]));
        assert_eq!(tree(&processes, 12), HashSet::from([12]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_is_measured() {
        let (thread, process) = (of_this_thread().unwrap(), of_process_tree(std::process::id()).unwrap());
        let mut number = 1_u64;
        while of_this_thread().unwrap() < thread + Duration::from_millis(60) {
            number = super::super::data::scramble(number);
        }
        assert_ne!(number, 1);
        assert!(of_process_tree(std::process::id()).unwrap() >= process + Duration::from_millis(30));
        assert!(of_process_tree(u32::MAX).is_err());
    }
}
