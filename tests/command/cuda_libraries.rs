//! Libraries, graphs and 16 bits with `--device cuda`, on a driver that is none.

use crate::sandbox::Sandbox;
use crate::stand_in::stand_in;

/// Small: what computes is one thread of a processor that stands for many of a device.
const NETWORK: &str = r#"
input = [3, 10, 10]
layer = [
  { name = "conv1", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "norm1", kind = "batch-norm" },
  { name = "relu1", kind = "relu" },
  { name = "conv2", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "relu2", kind = "relu" },
  { name = "mean", kind = "adaptive-pool", extent = 2 },
  { name = "flat", kind = "flatten" },
  { name = "fc", kind = "linear", width = 10 },
]
"#;

/// Measurements are small on a device with little memory.
const SMALL: [(&str, &str); 1] = [("TIDEGATE_MEMORY", "50000000")];

const QUICK: &str = "--device cuda --warmup 1 --repeats 1";

/// Profiled on a device with these libraries, planned, and run plainly and as graphs.
fn loss_of(libraries: &[&str], dtype: &str, computed_by: &str) -> Option<String> {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    stand_in(&[&["libcuda.so", "libnvrtc.so"], libraries].concat())?;
    let run = |arguments: &str| {
        let run = sandbox.run_on_stand_in(arguments, libraries, &SMALL).expect("there was one");
        assert_eq!(run.code, 0, "{arguments}: {}", run.stderr);
        run.stdout
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
    let without = "computed by cuDNN: not there; cuBLAS: not used; own kernels: ";
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
