//! What this machine's processor is called.

/// The processor's model name, from `/proc/cpuinfo` where there is one.
pub fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_name(&text).unwrap_or("unknown processor").to_string()
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::model_name;

    #[test]
    fn the_first_model_name_is_found() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: Another\n";
        assert_eq!(model_name(text), Some("Some CPU @ 2.00GHz"));
        assert_eq!(model_name("model name\t:\n"), None);
        assert_eq!(model_name("CPU implementer\t: 0x41\n"), None);
    }
}
