//! Libraries, graphs and 16 bits with `--device cuda`, on a driver that is none.

use crate::sandbox::Sandbox;
use crate::stand_in::stand_in;

/// Small: what computes is one thread of a processor that stands for many of a device.
const NETWORK: &str = include_str!("inputs/small-norm.toml");

/// Measurements are small on a device with little memory.
const SMALL: [(&str, &str); 1] = [("TIDEGATE_MEMORY", "50000000")];

const QUICK: &str = "--device cuda --warmup 1 --repeats 1";

/// Profiled on a device with these libraries, planned, and run plainly and as graphs.
fn loss_of(libraries: &[&str], dtype: &str, computed_by: &str) -> Option<String> {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    stand_in(&[&["libcuda.so", "libnvrtc.so"], libraries].concat())?;
    let run = |arguments: &str| {
        sandbox.ok_on_stand_in(arguments, libraries, &SMALL).expect("there was one")
    };
    let network = format!("net.toml --batch 2 --dtype {dtype}");
    let shown = run(&format!("profile {network} {QUICK} -o p"));
    assert!(shown.contains(computed_by), "{shown}");
    assert!(sandbox.text("p/trace.json").contains("Computed by "), "the trace does not say it");
    sandbox.ok("plan p/trace.json -m p/machine.json -b 130% --method swap-all -o plan.json");
    let command = "run plan.json --trace p/trace.json -m p/machine.json --device cuda \
                   --iterations 2 --no-in-core";
    let (plain, graph) = (run(command), run(&format!("{command} --graph")));
    let loss = |text: &str| {
        text.lines().find(|line| line.starts_with("loss")).map(str::to_owned).expect("a loss")
    };
    for shown in [&plain, &graph] {
        assert!(shown.contains(computed_by) && shown.contains("equal"), "{shown}");
    }
    assert!(graph.contains("each launched as one graph") && !plain.contains("graph"), "{graph}");
    assert_eq!(loss(&plain), loss(&graph));
    Some(loss(&plain))
}

#[test]
fn what_computes_is_said_and_graphs_leave_the_same_loss() {
    let with = "computed by cuDNN 9.2.1: ";
    let Some(with) = loss_of(&["libcublas.so", "libcudnn.so"], "f32", with) else { return };
    let without = "computed by cuDNN: not there; cuBLAS: not there; own kernels: ";
    let without = loss_of(&[], "f32", without).expect("there was one");
    // Sums in another order: the same number to a few digits.
    let number = |loss: &str| -> f64 {
        loss.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number")
    };
    assert!((number(&with) - number(&without)).abs() < 1e-3, "{with}, {without}");
}

#[test]
fn networks_in_16_bits_run_on_cuda() {
    let computed_by = "computed by cuDNN 9.2.1: ";
    loss_of(&["libcublas.so", "libcudnn.so"], "bf16", computed_by);
}

/// What is here is listed: which file of which version is used, and what is missing.
#[test]
fn devices_and_libraries_are_listed() {
    let sandbox = Sandbox::new();
    let libraries = ["libcublas.so", "libcudnn.so"];
    let list = |format: &str, settings: &[(&str, &str)]| {
        sandbox.ok_on_stand_in(&format!("list devices --format {format}"), &libraries, settings)
    };
    let Some(text) = list("text", &[]) else { return };
    let folder = stand_in(&["libcuda.so", "libnvrtc.so", "libcublas.so", "libcudnn.so"]).unwrap();
    let folder = folder.display().to_string();
    assert!(text.starts_with("device 0: stand-in, 1.074 GB, capability 9.0\ndriver"), "{text}");
    for (name, version, file) in [
        ("NVRTC", "12.0", "libnvrtc.so"),
        ("cuBLAS", "12.0.0", "libcublas.so"),
        ("cuDNN", "9.2.1", "libcudnn.so"),
    ] {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line");
        assert!(line.contains(version) && line.ends_with(&format!("{folder}/{file}")), "{line}");
    }

    let said: serde_json::Value =
        serde_json::from_str(&list("json", &[("TIDEGATE_NVRTC", "13")]).expect("there was one"))
            .expect("JSON");
    assert_eq!(said["devices"][0]["capability"], "9.0");
    assert_eq!(said["libraries"][0]["name"], "NVRTC");
    let missing = said["libraries"][0]["missing"].as_str().expect("a text");
    assert!(missing.contains("is of CUDA 13, the driver of CUDA 12"), "{missing}");
    assert_eq!(said["libraries"][2]["version"], "9.2.1");
}

/// Without a driver there is nothing to list, which is no failure.
#[test]
fn without_a_driver_that_is_listed() {
    let sandbox = Sandbox::new();
    let shown = sandbox.ok("list devices --cuda-libraries .");
    if shown.starts_with("device") {
        println!("skipped: there is a CUDA device here");
        return;
    }
    assert!(shown.starts_with("no NVIDIA driver: ") || shown.contains("sees no device"), "{shown}");
    assert!(shown.contains("NVRTC: libnvrtc.so is not found: install CUDA 13's NVRTC"), "{shown}");
    assert!(shown.ends_with("looked in: .\n"), "{shown}");
}

/// What computes is chosen, on CUDA alone.
#[test]
fn libraries_are_left_away_where_that_is_asked() {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    let check = "profile net.toml --batch 2 --device cuda --warmup 1 --repeats 1 -o p";
    let libraries = ["libcublas.so", "libcudnn.so"];
    let shown = |without: &str| {
        sandbox.ok_on_stand_in(&format!("{check} --without {without}"), &libraries, &SMALL)
    };
    let Some(text) = shown("cudnn") else { return };
    assert!(text.contains("computed by cuDNN: not wanted; cuBLAS: "), "{text}");
    assert!(!text.contains("cuBLAS: not"), "{text}");
    let text = shown("cudnn,cublas").expect("there was one");
    assert!(text.contains("cuDNN: not wanted; cuBLAS: not wanted; own kernels"), "{text}");
}
