//! What the defaults ask of the machine: its cores and its memory.

use std::fs;

/// Assumed where the machine does not say.
const MEMORY_BYTES_FALLBACK: usize = 2 << 30;

/// Cores that this process may use: affinity and cgroup quotas count.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory that this process may use: the machine's, or its control group's limit if that is less
/// (version 2: `memory.max`; version 1: `memory.limit_in_bytes`).
pub(super) fn memory_bytes() -> usize {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    machine.into_iter().chain(limits).min().unwrap_or(MEMORY_BYTES_FALLBACK)
}

fn mem_total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_bytes() {
        assert_eq!(mem_total("MemTotal:        8025276 kB\nMemFree: 1 kB\n"), Some(8_025_276 * 1024));
        assert_eq!(mem_total("nothing of the sort"), None);
        assert!(memory_bytes() > 1 << 20);
    }
}
