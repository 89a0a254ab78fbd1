//! What memory the system has to give, asked before anything large is allocated: what does not fit
//! would otherwise end the process, or another one.

use std::path::Path;

use schema::Bytes;

/// Something that does not fit the system's memory. Nothing of it was allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {needed} of this machine's memory, which has {available} to give: {remedy}")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct NoRoom {
    pub what: String,
    pub needed: Bytes,
    pub available: Bytes,
    pub remedy: &'static str,
}

/// Refuses what needs more bytes than the system can give: than are available without swapping, in
/// memory and in the control group that the process is in, where the system says so (Linux); and
/// than an allocator would hand out, on any system.
///
/// # Errors
/// [`NoRoom`], where it does not fit.
pub fn room_for(what: impl Into<String>, needed: u64, remedy: &'static str) -> Result<(), NoRoom> {
    let available = available();
    let handed_out = || {
        let mut bytes = Vec::<u8>::new();
        let size = usize::try_from(needed).ok();
        let made = size.is_some_and(|size| bytes.try_reserve_exact(size).is_ok());
        // Otherwise both the allocation and its end may be left out.
        std::hint::black_box(&mut bytes);
        made
    };
    if available.is_none_or(|available| needed <= available) && handed_out() {
        return Ok(());
    }
    Err(NoRoom::new(what, needed, remedy))
}

impl NoRoom {
    /// What the system refused, or would have.
    pub(crate) fn new(what: impl Into<String>, needed: u64, remedy: &'static str) -> Self {
        // Where an allocator refuses, it does not say how much it would have had.
        let available = available().unwrap_or(u64::MAX).min(needed.saturating_sub(1));
        Self { what: what.into(), needed: Bytes(needed), available: Bytes(available), remedy }
    }
}

/// What the system, and the control group that the process is in, could give without swapping,
/// where they say so.
pub fn left() -> Option<Bytes> {
    available().map(Bytes)
}

/// What the system could give without swapping, where it says so. A thirty-second of it is left to
/// page tables, stacks, and whoever asks next.
fn available() -> Option<u64> {
    let read = |file| std::fs::read_to_string(file).ok();
    let of_machine = read("/proc/meminfo").and_then(|text| of_meminfo(&text));
    let of_groups = read("/proc/self/cgroup")
        .and_then(|groups| of_control_groups(Path::new("/sys/fs/cgroup"), &groups));
    let least = of_machine.into_iter().chain(of_groups).min()?;
    Some(least - least / 32)
}

fn of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the control groups of a process leave it, those of version 2 and of version 1, each with
/// all that it lies in: the least of them. In a container, a group's path may be the host's, of
/// which only the root is there.
fn of_control_groups(root: &Path, groups: &str) -> Option<u64> {
    let room = |folder: &Path, limit: &str, usage: &str| {
        let text = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
        // Pages of files that nobody looked at lately are given back when they are asked for.
        let stat = text("memory.stat").unwrap_or_default();
        let cached =
            |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        let cached = cached("total_inactive_file ").or_else(|| cached("inactive_file "));
        let used = number(usage)?.saturating_sub(cached.unwrap_or(0));
        // Without a limit, `max` stands there, which is no number, or more than there can be.
        Some(number(limit)?.saturating_sub(used))
    };
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let [folder, limit, usage] = match controllers {
            "" => ["", "memory.max", "memory.current"],
            names if names.split(',').any(|name| name == "memory") => {
                ["memory", "memory.limit_in_bytes", "memory.usage_in_bytes"]
            }
            _ => return None,
        };
        let groups = Path::new(path).ancestors();
        groups.filter_map(|group| room(&root.join(folder).join(group), limit, usage)).min()
    };
    groups.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       24 kB\nMemFree:  1 kB\nMemAvailable:   20 kB\n";
        assert_eq!(of_meminfo(text), Some(20 << 10));
        assert_eq!(of_meminfo("MemTotal: 24 kB\n"), None);
        assert_eq!(of_meminfo("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn the_narrowest_control_group_counts() {
        let root = tempfile::tempdir().expect("there is room");
        let group = |path: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).expect("there is room");
            for (name, text) in files {
                std::fs::write(folder.join(name), text).expect("there is room");
            }
        };
        let room = |groups| of_control_groups(root.path(), groups);
        assert_eq!(room("0::/\n1:memory:/a/b\n"), None);
        group("user", &[("memory.max", "max\n"), ("memory.current", "500\n")]);
        assert_eq!(room("0::/user/one\n"), None);
        let stat = "anon 300\ninactive_file 200\n";
        group("user", &[("memory.max", "1000\n"), ("memory.stat", stat)]);
        group("user/one", &[("memory.max", "900\n"), ("memory.current", "100\n")]);
        assert_eq!(room("0::/user/one\n"), Some(700));
        assert_eq!(room("0::/elsewhere\n"), None);
        // What a container sees of version 1: a path of the host's, and its own group as the root.
        let usage = ("memory.usage_in_bytes", "900");
        group("memory", &[("memory.limit_in_bytes", "600"), usage]);
        assert_eq!(room("4:cpu:/\n3:hugetlb,memory:/docker/0f3a\n0::/\n"), Some(0));
    }

    #[test]
    fn what_no_machine_has_is_refused_with_need_and_remedy() {
        assert_eq!(room_for("a byte", 1, "nothing"), Ok(()));
        for needed in [1 << 58, u64::MAX] {
            let refused = room_for("a network", needed, "choose a smaller batch");
            let NoRoom { what, needed: said, available, .. } = refused.expect_err("too much");
            assert_eq!((what.as_str(), said), ("a network", Bytes(needed)));
            assert!(available < said);
        }
    }
}
