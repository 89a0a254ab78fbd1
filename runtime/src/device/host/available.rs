//! How much memory the system has to give.

use schema::Bytes;

/// What the system could give without swapping, where it says so (Linux).
pub(super) fn available_memory() -> Option<Bytes> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       24 kB\nMemFree:  1 kB\nMemAvailable:   20 kB\n";
        assert_eq!(parse(text), Some(Bytes(20 << 10)));
        assert_eq!(parse("MemTotal: 24 kB\n"), None);
        assert_eq!(parse("MemAvailable: many kB\n"), None);
    }
}
