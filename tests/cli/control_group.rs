//! A control group with a memory limit, of version 1 or 2, according to this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take to notice that a group is empty.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The file with the bytes of kernel memory that the sockets of a group hold.
    fn sockets_file(self) -> &'static str {
        match self {
            Self::One => "memory.kmem.tcp.usage_in_bytes",
            Self::Two => "memory.stat",
        }
    }

    /// That number, in the text of the file.
    fn socket_bytes(self, text: &str) -> Option<u64> {
        let number = match self {
            Self::One => text,
            Self::Two => text.lines().find_map(|line| line.strip_prefix("sock "))?,
        };
        number.trim().parse().ok()
    }
}

/// A new group, removed on drop.
pub struct Group {
    dir: PathBuf,
    version: Version,
}

impl Group {
    /// `None`: this process may not create one.
    pub fn new(name: &str, bytes_max: u64) -> Option<Self> {
        let (root, version) = hierarchy(&fs::read_to_string("/proc/mounts").ok()?, controllers)?;
        if version == Version::Two {
            // Most machines have it enabled. Where it cannot be enabled, setting the limit fails.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let dir = root.join(format!("liststore-{name}-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Self { dir, version };
        group.limit(bytes_max).ok()?;
        Some(group)
    }

    fn limit(&self, bytes: u64) -> std::io::Result<()> {
        let set = |file: &str, bytes: u64| fs::write(self.dir.join(file), bytes.to_string());
        match self.version {
            Version::One => {
                set("memory.limit_in_bytes", bytes)?;
                // Version 1 counts the memory of sockets only with a separate limit.
                set("memory.kmem.tcp.limit_in_bytes", bytes)
            }
            Version::Two => {
                // A kernel without swap has no such file.
                let _ = set("memory.swap.max", 0);
                set("memory.max", bytes)
            }
        }
    }

    /// The shell command that enters the group.
    pub fn entry(&self) -> String {
        format!("echo $$ > {}", self.dir.join("cgroup.procs").display())
    }

    /// Bytes of kernel memory that the sockets of the group hold.
    pub fn socket_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.version.sockets_file())).unwrap();
        self.version.socket_bytes(&text).unwrap_or_else(|| panic!("no bytes of sockets: {text}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes in it have ended, which the kernel notices with a delay.
        let until = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.dir).is_err() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// The mounted hierarchy that has the memory controller, if one has: /proc/mounts, cgroups(7).
fn hierarchy(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<(PathBuf, Version)> {
    mounts.lines().find_map(|line| {
        let [_, dir, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let dir = PathBuf::from(dir);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Some((dir, Version::One)),
            "cgroup2" if controllers(&dir).split_whitespace().any(|name| name == "memory") => Some((dir, Version::Two)),
            _ => None,
        }
    })
}

/// The controllers of a hierarchy of version 2.
fn controllers(root: &Path) -> String {
    fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
}

#[test]
fn the_hierarchy_with_the_memory_controller_is_found() {
    let v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
    let both = v1.to_owned() + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime,nsdelegate 0 0\n";
    let v2 = "proc /proc proc rw 0 0\n\
        cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n";
    let of_one = Some((PathBuf::from("/sys/fs/cgroup/memory"), Version::One));
    let of_two = Some((PathBuf::from("/sys/fs/cgroup"), Version::Two));
    for (mounts, controllers, expected) in [
        (v1, "", of_one.clone()),
        (&both, "hugetlb\n", of_one),
        (v2, "cpuset cpu io memory hugetlb pids rdma misc\n", of_two),
        (v2, "cpuset cpu io pids\n", None),
        ("tmpfs /sys/fs/cgroup tmpfs rw,memory 0 0\n", "memory", None),
        ("", "memory", None),
    ] {
        let found = hierarchy(mounts, |_| controllers.to_owned());
        assert_eq!(found, expected, "{mounts}");
    }
}

#[test]
fn the_bytes_of_sockets_are_read() {
    // The lines of Linux 6: other names have the same beginning or end.
    let stat = "anon 104857600\nfile 8192\nkernel 1048576\nkernel_stack 65536\npagetables 131072\nsec_pagetables 0\n\
        percpu 2448\nsock 7340032\nvmalloc 0\nshmem 0\nsocket_like 5\nworkingset_refault_file 1\n";
    assert_eq!(Version::Two.socket_bytes(stat), Some(7_340_032));
    assert_eq!(Version::Two.socket_bytes("anon 1\nxsock 2\nsock_ 3\n"), None);
    assert_eq!(Version::One.socket_bytes("8192\n"), Some(8_192));
}

/// A directory replaces the group: it records the writes of version 2, and supplies the reads.
#[test]
fn a_version_two_group_has_its_limit_and_socket_memory() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group { dir: dir.path().join("group"), version: Version::Two };
    fs::create_dir(&group.dir).unwrap();
    group.limit(512 << 20).unwrap();
    let read = |file: &str| fs::read_to_string(group.dir.join(file)).unwrap();
    assert_eq!((read("memory.max").as_str(), read("memory.swap.max").as_str()), ("536870912", "0"));
    fs::write(group.dir.join("memory.stat"), "anon 1\nsock 4096\n").unwrap();
    assert_eq!(group.socket_bytes(), 4_096);
    assert_eq!(group.entry(), format!("echo $$ > {}/group/cgroup.procs", dir.path().display()));
    for file in ["memory.max", "memory.swap.max", "memory.stat"] {
        fs::remove_file(group.dir.join(file)).unwrap();
    }
}
