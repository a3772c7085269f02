//! Metrics of this process from the kernel, under the standard names of Prometheus clients.

use std::fs;
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, IntGauge};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The open files of the process. Since Linux 6.2 the size of the directory is their number.
const OPEN_FILES: &str = "/proc/self/fd";

pub(super) struct ProcessMetrics {
    cpu: Counter,
    max_files: IntGauge,
    open_files: IntGauge,
    resident: IntGauge,
    start: IntGauge,
    threads: IntGauge,
    virtual_memory: IntGauge,
    /// Without it, two simultaneous scrapes would both add the same CPU time.
    scrape: Mutex<()>,
}

impl ProcessMetrics {
    pub(super) fn new() -> prometheus::Result<Self> {
        let start = IntGauge::new("process_start_time_seconds", "When the process started, since the Unix epoch.")?;
        let booted = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_seconds(&text));
        if let (Some(booted), Some(stat)) = (booted, Stat::of_this_process()) {
            start.set(number(booted + stat.start_ticks / clock_ticks_per_second()));
        }
        Ok(Self {
            cpu: Counter::new("process_cpu_seconds_total", "User and system CPU time in seconds.")?,
            max_files: IntGauge::new("process_max_fds", "Files that the process may have open.")?,
            open_files: IntGauge::new("process_open_fds", "Files that the process has open.")?,
            resident: IntGauge::new("process_resident_memory_bytes", "Resident memory in bytes.")?,
            start,
            threads: IntGauge::new("process_threads", "Threads of the process.")?,
            virtual_memory: IntGauge::new("process_virtual_memory_bytes", "Virtual memory in bytes.")?,
            scrape: Mutex::new(()),
        })
    }

    fn metrics(&self) -> [&dyn Collector; 7] {
        [&self.cpu, &self.max_files, &self.open_files, &self.resident, &self.start, &self.threads, &self.virtual_memory]
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.metrics().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _alone = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stat) = Stat::of_this_process() {
            self.cpu.inc_by((stat.cpu_seconds(clock_ticks_per_second()) - self.cpu.get()).max(0.0));
            self.resident.set(number(stat.resident_pages.saturating_mul(page_size() as u64)));
            self.threads.set(number(stat.threads));
            self.virtual_memory.set(number(stat.virtual_bytes));
        }
        if let Some(count) = open_files() {
            self.open_files.set(number(count));
        }
        // `None` means unlimited.
        self.max_files.set(getrlimit(Resource::Nofile).current.map_or(i64::MAX, number));
        self.metrics().into_iter().flat_map(Collector::collect).collect()
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn open_files() -> Option<u64> {
    match fs::metadata(OPEN_FILES).ok()?.len() {
        // The listing includes the directory that is being listed.
        0 => Some(fs::read_dir(OPEN_FILES).ok()?.count().saturating_sub(1) as u64),
        count => Some(count),
    }
}

/// When the machine started, in seconds since the Unix epoch: a line of /proc/stat.
fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The used fields of /proc/self/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn of_this_process() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The name of the program, in parentheses, may hold any text. Fields are counted after it, from the state as 0.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Self {
            user_ticks: field(11)?,
            system_ticks: field(12)?,
            threads: field(17)?,
            start_ticks: field(19)?,
            virtual_bytes: field(20)?,
            resident_pages: field(21)?,
        })
    }

    fn cpu_seconds(&self, ticks_per_second: u64) -> f64 {
        (self.user_ticks + self.system_ticks) as f64 / ticks_per_second as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_with_any_program_name_is_read() {
        let line = "4711 (a) b (c) S 1 2 3 0 -1 4194560 100 0 5 0 1234 66 0 0 20 0 9 0 5000 36770631 1500 184467";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                user_ticks: 1234,
                system_ticks: 66,
                threads: 9,
                start_ticks: 5000,
                virtual_bytes: 36_770_631,
                resident_pages: 1500
            }
        );
        assert!((stat.cpu_seconds(100) - 13.0).abs() < 1e-9);
        assert_eq!(Stat::parse("4711 (cut) S 1 2 3"), None);
        assert_eq!(boot_seconds("cpu  1 2\nbtime 1764167000\nprocesses 5\n"), Some(1_764_167_000));
    }

    #[test]
    fn each_scrape_has_all_metrics_of_the_process() {
        let registry = prometheus::Registry::new();
        registry.register(Box::new(ProcessMetrics::new().unwrap())).unwrap();
        for _ in 0..2 {
            let families = registry.gather();
            let names: Vec<&str> = families.iter().map(MetricFamily::name).collect();
            assert_eq!(
                names,
                [
                    "process_cpu_seconds_total",
                    "process_max_fds",
                    "process_open_fds",
                    "process_resident_memory_bytes",
                    "process_start_time_seconds",
                    "process_threads",
                    "process_virtual_memory_bytes"
                ]
            );
            for family in families.iter().skip(1) {
                assert!(family.get_metric()[0].get_gauge().get_value() > 0.0, "{}", family.name());
            }
        }
    }
}
