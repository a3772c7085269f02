//! The machine's properties for the defaults: cores, memory, and the limit of open files.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Assumed if the machine does not report its memory.
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

/// Open files in addition to the clients' connections: files of the embedded stores, connections to the databases, and
/// clients that wait or are being refused.
pub const OTHER_FILES: usize = 3_000;
/// The number of connections of a server with enough open files.
const CONNECTIONS_MAX: usize = 25_000;

/// The number of connections for which there are files. This process raises its soft limit to the hard limit.
pub(super) fn connections() -> usize {
    // None is unlimited.
    let files = getrlimit(Resource::Nofile).maximum.and_then(|files| usize::try_from(files).ok());
    files.map_or(CONNECTIONS_MAX, connections_of)
}

/// A quarter of the files if the limit is very low, which the server reports.
fn connections_of(files: usize) -> usize {
    files.saturating_sub(OTHER_FILES).max(files / 4).clamp(1, CONNECTIONS_MAX)
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

    #[test]
    fn connections_leave_files_for_other_uses() {
        for (files, connections) in [
            (1_048_576, 25_000),
            (28_000, 25_000),
            (27_999, 24_999),
            (20_000, 17_000),
            (4_096, 1_096),
            (1_024, 256),
            (0, 1),
        ] {
            assert_eq!(connections_of(files), connections, "{files}");
        }
    }
}
