//! Models from ONNX files, as PyTorch's exporters write them.

use crate::sandbox::Sandbox;

/// By the older exporter, for inference: a convolution that has its batch norm's figures.
const FOLDED: &[u8] = include_bytes!("onnx/folded.onnx");
/// By the newer, with an open batch and length: a block of a transformer.
const BLOCK: &[u8] = include_bytes!("onnx/block.onnx");

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, bytes) in [("folded.onnx", FOLDED), ("block.onnx", BLOCK)] {
        std::fs::write(sandbox.path(name), bytes).expect("there is room");
    }
    sandbox
}

/// The in-core peak that a plan states.
fn peak(sandbox: &Sandbox, options: &str) -> u64 {
    let plan = format!("plan {options} -m titan-v --method in-core --format json");
    sandbox.json(&plan)["in_core"]["peak_bytes"].as_u64().expect("a figure")
}

#[test]
fn a_folded_batch_norm_is_said_and_put_back() {
    let sandbox = sandbox();
    let shown = sandbox.ok("plan folded.onnx --batch 8 -m titan-v -b 100% -o plan.json");
    assert!(shown.contains("note: `/0/Conv` has a batch norm folded"), "{shown}");
    assert!(shown.contains("--training-batch-norm puts it back"), "{shown}");
    sandbox.ok("verify plan.json");
    let again = "plan folded.onnx --batch 8 -m titan-v --training-batch-norm";
    let shown = sandbox.ok(again);
    assert!(shown.contains("which is put back"), "{shown}");
    let folded = peak(&sandbox, "folded.onnx --batch 8");
    assert!(folded < peak(&sandbox, "folded.onnx --batch 8 --training-batch-norm"));
    sandbox.refuses(
        "plan resnet18 --batch 8 -m titan-v --training-batch-norm",
        2,
        "training-batch-norm is no option of this network",
    );
}

#[test]
fn open_extents_are_stated_and_fixed_ones_stay() {
    let sandbox = sandbox();
    let short = peak(&sandbox, "block.onnx --batch 8 --sequence 16");
    assert!(short < peak(&sandbox, "block.onnx --batch 8 --sequence 32"));
    assert!(short < peak(&sandbox, "block.onnx --batch 16 --sequence 16"));
    assert!(
        short > peak(&sandbox, "block.onnx --batch 8 --sequence 16 --dtype bf16 --optimizer sgd")
    );
    sandbox.refuses("plan block.onnx --batch 8 -m titan-v", 2, "state --sequence");
    sandbox.refuses(
        "plan folded.onnx --batch 8 -m titan-v --image 32",
        2,
        "image is fixed in the file",
    );
    sandbox.refuses(
        "plan block.onnx --batch 8 --sequence 16 -m titan-v --layers 2",
        2,
        "layers is no option",
    );
}

#[test]
fn what_is_planned_with_alone_does_not_run() {
    let sandbox = sandbox();
    sandbox.refuses("profile folded.onnx --batch 2 -o p", 2, "no kernel");
}
