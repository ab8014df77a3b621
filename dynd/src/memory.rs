//! How much memory this process may use: the machine's, or less if a cgroup says so.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes this process can still allocate, by `/proc/meminfo` and the limits of its cgroup and all
/// cgroups above; `None` where neither can be read.
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text));
    let group = fs::read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| cgroup_room(Path::new("/sys/fs/cgroup"), &text));
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Smallest `memory.max - memory.current` on the way from the process's cgroup (v2) to the root.
/// Cached files count as free: the kernel drops them when memory is needed.
fn cgroup_room(root: &Path, own: &str) -> Option<u64> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim();
    let leaf: PathBuf = root.join(path.trim_start_matches('/'));
    let read = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    leaf.ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(|group| {
            let limit = read(group.join("memory.max"))?;
            let used = read(group.join("memory.current"))?.saturating_sub(cached_files(group));
            Some(limit.saturating_sub(used))
        })
        .min()
}

fn cached_files(group: &Path) -> u64 {
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let fields = stat.lines().filter_map(|line| line.split_once(' '));
    fields
        .filter(|(name, _)| matches!(*name, "inactive_file" | "active_file"))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_meminfo() {
        let text = "MemTotal:       100 kB\nMemAvailable:    64 kB\n";
        assert_eq!(mem_available(text), Some(65536));
        assert_eq!(mem_available("MemTotal: 1 kB"), None);
    }

    #[test]
    fn the_tightest_cgroup_counts() {
        let root = tempfile::tempdir().expect("temporary directory");
        let leaf = root.path().join("service/unit");
        fs::create_dir_all(&leaf).expect("create");
        let write = |dir: &Path, max: &str, current: &str| {
            fs::write(dir.join("memory.max"), max).expect("write");
            fs::write(dir.join("memory.current"), current).expect("write");
        };
        write(&leaf, "max\n", "10\n");
        assert_eq!(cgroup_room(root.path(), "0::/service/unit\n"), None);
        write(&root.path().join("service"), "1000\n", "400\n");
        assert_eq!(cgroup_room(root.path(), "0::/service/unit\n"), Some(600));
        write(&leaf, "500\n", "110\n");
        assert_eq!(cgroup_room(root.path(), "0::/service/unit\n"), Some(390));
        let stat = "anon 10\ninactive_file 60\nactive_file 40\n";
        fs::write(leaf.join("memory.stat"), stat).expect("write");
        assert_eq!(cgroup_room(root.path(), "0::/service/unit\n"), Some(490));
    }
}
