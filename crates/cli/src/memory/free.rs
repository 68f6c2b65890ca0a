//! Free memory of the host and of the process's control groups, as Linux reports it.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the bytes that can be allocated before the host or a control group runs out; `None` if the system
/// does not report it.
pub(super) fn host() -> Option<u64> {
    let available = read("/proc/meminfo").and_then(|text| available(&text));
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let groups =
        groups.lines().flat_map(folders).filter_map(|(version, folder)| version.free(&folder));
    available.into_iter().chain(groups).min()
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Parses the line `MemAvailable:   16384 kB`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// File names of a version of control groups: for the limit, the usage, and the key of inactive page cache,
/// which is reclaimed first.
#[derive(Clone, Copy, Debug)]
struct Version {
    root: &'static str,
    limit: &'static str,
    usage: &'static str,
    idle_files: &'static str,
}

const V1: Version = Version {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    idle_files: "total_inactive_file ",
};

const V2: Version = Version {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    idle_files: "inactive_file ",
};

impl Version {
    /// Returns the free bytes of a group; `None` if it has no limit.
    fn free(self, folder: &Path) -> Option<u64> {
        let limit = number(&read(folder.join(self.limit))?)?;
        let usage = number(&read(folder.join(self.usage))?)?;
        let statistics = read(folder.join("memory.stat")).unwrap_or_default();
        let idle = statistics.lines().find_map(|line| number(line.strip_prefix(self.idle_files)?));
        Some(limit.saturating_sub(usage.saturating_sub(idle.unwrap_or(0))))
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the directories of the groups that a line of `/proc/self/cgroup` names, from the innermost to the root. The
/// limit of a group applies to all groups inside it. Inside a container the path may not exist, and the root is the
/// root of the container.
fn folders(line: &str) -> Vec<(Version, PathBuf)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let version = match fields.next() {
        Some("") => V2,
        Some(names) if names.split(',').any(|name| name == "memory") => V1,
        _ => return Vec::new(),
    };
    let path = Path::new(fields.next().unwrap_or("/"));
    let within = path.ancestors().filter_map(|group| group.strip_prefix("/").ok());
    within.map(|group| (version, Path::new(version.root).join(group))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_a_line_of_meminfo() {
        let text = "MemTotal:  24 kB\nMemFree:  1 kB\nMemAvailable:     16 kB\n";
        assert_eq!(available(text), Some(16 << 10));
        assert_eq!(available("MemTotal: 24 kB\n"), None);
        assert_eq!(available("MemAvailable: much kB\n"), None);
    }

    #[test]
    fn a_group_is_limited_by_all_that_it_lies_in() {
        let named = |line| folders(line).into_iter().map(|(_, folder)| folder).collect::<Vec<_>>();
        let v1 = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/"];
        assert_eq!(named("4:memory:/a/b"), v1.map(PathBuf::from));
        assert_eq!(named("0::/a"), ["/sys/fs/cgroup/a", "/sys/fs/cgroup/"].map(PathBuf::from));
        assert_eq!(named("3:cpu,cpuacct:/a"), Vec::<PathBuf>::new());
    }

    #[test]
    fn files_that_nobody_uses_count_as_free() {
        let folder = std::env::temp_dir().join(format!("cubeyard-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "800\n");
        assert_eq!(V2.free(&folder), Some(200));
        write("memory.stat", "anon 500\ninactive_file 300\n");
        assert_eq!(V2.free(&folder), Some(500));
        write("memory.max", "max\n");
        assert_eq!(V2.free(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
