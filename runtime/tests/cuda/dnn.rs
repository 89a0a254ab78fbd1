//! cuDNN: what is said to it, what it may not do, and what it makes, on one that is none
//! (`cudnn.h`).

use std::collections::BTreeSet;

use runtime::cuda::launches::{DnnKernel, dnn_call};
use runtime::cuda::{CudaDevice, CudaOptions, open};
use runtime::device::{Device, HostTensors};
use runtime::layers::{AveragePool, Shape, Window};
use runtime::network::{Network, Step};
use schema::Plan;

use crate::device::opened;
use crate::inside::{BOTH, inside};
use crate::problem::{SEED, Subject};
use crate::{models, networks};

/// Largest difference from the host's after an iteration, as a share of the largest value in a
/// tensor: roundings of one layer go through those behind it.
const TOLERANCE: f64 = 2e-5;

/// A subject with the plan that keeps everything.
fn in_core(network: Network) -> (Subject, Plan) {
    let subject = Subject::new(network);
    let plan = subject.plan("in-core", 130, false, None);
    (subject, plan)
}

/// Runs an iteration and compares what outlives it with the host's.
fn compare(subject: &Subject, plan: &Plan, device: &mut CudaDevice<'_>) {
    let network = &subject.network;
    let mut host = HostTensors::new(network, SEED);
    host.iterate().unwrap();
    device.run().unwrap_or_else(|error| panic!("{}: {error:?}", network.name));
    let mut compared = 0;
    for buffer in plan.buffers.iter().filter(|buffer| buffer.at_end) {
        let Some(tensor) = buffer.tensor else { continue };
        let expected = &host.tensors[tensor.index()];
        let mut found = vec![0.0; expected.len()];
        device.read(tensor, &mut found).unwrap();
        let off = host.difference(tensor, expected, &found);
        assert!(off <= TOLERANCE, "{}, {}: {off}", network.name, network.tensor(tensor).name);
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn cudnn_makes_what_the_host_makes() {
    let Some(()) = inside(&BOTH, &[]) else { return };
    for network in models::all() {
        let (subject, plan) = in_core(network);
        let network = &subject.network;
        let mut device = opened(&subject, &plan);
        let libraries = device.libraries();
        let (version, launches, memory) = libraries.dnn.clone().unwrap();
        assert_eq!((version.as_str(), libraries.not_dnn), ("9.2.1", 0));
        let said = network.ops().iter().filter(|op| dnn_call(&op.step).is_some()).count();
        assert_eq!(launches, said, "{}", network.name);
        let convolves = |step: &Step| matches!(step, Step::Convolution(_));
        let is_needed = network.ops().iter().any(|op| convolves(&op.step));
        assert_eq!(memory.0 > 0, is_needed, "{}", network.name);
        compare(&subject, &plan, &mut device);
        // Both libraries' memory is counted.
        let blas = libraries.blas.unwrap().1;
        assert!(device.memory().outside >= schema::Bytes(memory.0 + blas.0));
    }
}

#[test]
fn what_cudnn_has_no_steady_algorithm_for_is_left_to_kernels() {
    let Some(()) = inside(&BOTH, &[("TIDEGATE_DNN_GROUPS", "0")]) else { return };
    let (subject, plan) = in_core(models::images());
    let network = &subject.network;
    let mut device = opened(&subject, &plan);
    let libraries = device.libraries();
    // Grouped and depthwise: forward, weights and input of each, but for the first one's input.
    let grouped = network.ops().iter().filter(|op| {
        let is_one = op.name.starts_with("grouped") || op.name.starts_with("depthwise");
        is_one && dnn_call(&op.step).is_some()
    });
    assert_eq!(libraries.not_dnn, grouped.count());
    assert!(libraries.not_dnn > 0 && libraries.dnn.as_ref().unwrap().1 > 0);
    assert!(libraries.to_string().contains("ops left to other kernels"), "{libraries}");
    compare(&subject, &plan, &mut device);
}

#[test]
fn an_old_cudnn_is_not_used_and_that_is_said() {
    let Some(()) = inside(&BOTH, &[("TIDEGATE_DNN_VERSION", "8902")]) else { return };
    let (subject, plan) = in_core(networks::small("vgg"));
    let device = opened(&subject, &plan);
    let why = device.libraries().dnn.unwrap_err();
    assert!(why.starts_with("cannot be used: "), "{why}");
    assert!(why.ends_with("libcudnn.so is cuDNN 8.9.2, older than 9"), "{why}");
    assert!(device.libraries().to_string().starts_with(&format!("cuDNN: {why}; cuBLAS")));
}

#[test]
fn libraries_that_cannot_be_opened_are_left_away_and_that_is_said() {
    let settings = [("TIDEGATE_DNN_FAILS", "1"), ("TIDEGATE_BLAS_FAILS", "1")];
    let Some(()) = inside(&BOTH, &settings) else { return };
    let (subject, plan) = in_core(networks::small("vgg"));
    let mut device = opened(&subject, &plan);
    let said = device.libraries().to_string();
    for (library, status) in [("cuDNN", 1001), ("cuBLAS", 1)] {
        let why = format!(
            "{library}: cannot be used: opening {library} failed: an error (status {status}); "
        );
        assert!(said.contains(&why), "{said}");
    }
    device.run().unwrap();
}

/// What is found at launch alone is found before the first iteration.
#[test]
fn what_cudnn_refuses_at_launch_is_left_to_kernels() {
    let Some(()) = inside(&BOTH, &[("TIDEGATE_DNN_GRID", "1")]) else { return };
    let (subject, plan) = in_core(models::images());
    let network = &subject.network;
    let mut device = opened(&subject, &plan);
    let is_mean = |step: &Step| matches!(step, Step::AveragePool(_) | Step::AveragePoolBackward(_));
    let means = network.ops().iter().filter(|op| is_mean(&op.step));
    let means = means.filter(|op| dnn_call(&op.step).is_some()).count();
    assert!(means > 0);
    assert_eq!(device.libraries().not_dnn, means);
    compare(&subject, &plan, &mut device);
}

#[test]
fn cudnn_may_be_left_away() {
    let Some(()) = inside(&BOTH, &[]) else { return };
    let (subject, plan) = in_core(networks::small("vgg"));
    let options = CudaOptions { dnn: false, ..CudaOptions::default() };
    let device = open(&subject.network, &subject.trace, &plan, &options).unwrap();
    assert_eq!(device.libraries().dnn, Err("not wanted".into()));
}

/// Means over windows that cuDNN has, and those over parts that are such windows.
#[test]
fn only_windows_that_cudnn_has_are_said() {
    let said = |pool: AveragePool| dnn_call(&Step::AveragePool(pool)).map(|call| call.numbers);
    let shape = Shape::image(2, 3, 7, 6);
    let plain = said(AveragePool::new(shape, Window::square(3, 2, 1)).unwrap()).unwrap();
    assert_eq!(plain, [2, 3, 1, 7, 6, 1, 4, 3, 1, 3, 3, 1, 2, 2, 0, 1, 1, 0]);
    let ceil = Window { ceil: true, ..Window::square(2, 2, 0) };
    assert_eq!(said(AveragePool::new(shape, ceil).unwrap()), None, "a window beyond the edge");
    let parts = said(AveragePool::adaptive(shape, [1, 7, 3]).unwrap()).unwrap();
    assert_eq!(parts, [2, 3, 1, 7, 6, 1, 7, 3, 1, 1, 2, 1, 1, 2, 0, 0, 0, 0]);
    assert_eq!(said(AveragePool::adaptive(shape, [1, 2, 3]).unwrap()), None, "uneven parts");
}

/// Many planes of few images and channels are, and many rows are not.
#[test]
fn what_a_grid_of_cudnn_does_not_hold_is_not_said() {
    let mean = |n, c| {
        let pool = AveragePool::new(Shape::image(n, c, 2, 2), Window::square(2, 2, 0)).unwrap();
        dnn_call(&Step::AveragePool(pool)).map(|call| call.numbers[..2].to_vec())
    };
    assert_eq!(mean(64, 2048), Some(vec![64, 2048]));
    assert_eq!(mean(65_536, 1), None);
    let rows = |rows: usize| {
        dnn_call(&Step::Softmax { width: 2, elements: 2 * rows }).map(|call| call.numbers)
    };
    assert_eq!(rows(65_535), Some(vec![65_535, 2]));
    assert_eq!(rows(65_536), None);
}

#[test]
fn everything_said_is_compared() {
    let steps = models::all();
    let steps = steps.iter().flat_map(|network| network.ops());
    let said: BTreeSet<_> =
        steps.filter_map(|op| dnn_call(&op.step)).map(|call| call.kernel).collect();
    assert_eq!(said, DnnKernel::ALL.iter().copied().collect());
}
