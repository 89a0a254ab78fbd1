//! `tidegate fit`

use crate::sandbox::{Sandbox, repository};

const SAMPLES: &str = r#"
[[recording]]
file = "tests/recordings/small.opgraph.json"
machine = "p100"
"#;

#[test]
fn what_a_fit_writes_is_used() {
    let sandbox = Sandbox::new();
    sandbox.write("samples.toml", SAMPLES);
    let shown = sandbox.ok("fit samples.toml -o fitted.toml");
    assert!(shown.contains("has not seen its device:"), "{shown}");
    let fitted = sandbox.text("fitted.toml");
    let problem =
        "compare resnet18-cifar10 --batch 8 -m p100 -b 200% --methods in-core --format json";
    let as_bundled = sandbox.json(problem);
    sandbox.write("slow.toml", &fitted.replacen("launch_ns = ", "launch_ns = 1000", 1));
    let slower = sandbox.json(&format!("{problem} --efficiencies slow.toml"));
    let time = |comparison: &serde_json::Value| comparison["in_core"]["iteration_ns"].as_u64();
    assert!(time(&slower) > time(&as_bundled));
}

/// The fitted efficiencies are what the bundled list of samples gives.
#[test]
fn the_fitted_efficiencies_are_fitted_as_they_say() {
    let folder = repository().join("../shared/traces");
    if !folder.exists() || std::env::var_os("TIDEGATE_THOROUGH").is_none() {
        let folder = folder.display();
        eprintln!("skipped: it takes a minute: set TIDEGATE_THOROUGH=1, and have {folder}");
        return;
    }
    let sandbox = Sandbox::new();
    let samples = repository().join("networks/efficiency-samples.toml");
    let (samples, folder) = (samples.display(), folder.display());
    sandbox.ok(&format!("fit {samples} --folder {folder} -o fitted.toml"));
    let bundled = std::fs::read_to_string(repository().join("networks/efficiencies.toml"));
    assert_eq!(sandbox.text("fitted.toml"), bundled.expect("it is there"));
}
