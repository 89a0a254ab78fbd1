//! Models from ONNX files, as PyTorch's exporters write them.

use crate::sandbox::Sandbox;

/// The in-core peak that a plan states.
fn peak(sandbox: &Sandbox, options: &str) -> u64 {
    let plan = format!("plan {options} -m titan-v --method in-core --format json");
    sandbox.json(&plan)["in_core"]["peak_bytes"].as_u64().expect("a figure")
}

#[test]
fn a_batch_norm_that_is_put_back_takes_memory() {
    let sandbox = Sandbox::new();
    let folded = peak(&sandbox, "tests/onnx/folded.onnx --batch 8");
    assert!(folded < peak(&sandbox, "tests/onnx/folded.onnx --batch 8 --training-batch-norm"));
}

#[test]
fn open_extents_are_stated_and_fixed_ones_stay() {
    let sandbox = Sandbox::new();
    let short = peak(&sandbox, "tests/onnx/block.onnx --batch 8 --sequence 16");
    assert!(short < peak(&sandbox, "tests/onnx/block.onnx --batch 8 --sequence 32"));
    assert!(short < peak(&sandbox, "tests/onnx/block.onnx --batch 16 --sequence 16"));
    assert!(
        short
            > peak(
                &sandbox,
                "tests/onnx/block.onnx --batch 8 --sequence 16 --dtype bf16 --optimizer sgd"
            )
    );
}
