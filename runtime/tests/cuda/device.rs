//! The CUDA device itself, on a driver that is none (see `driver.h`): what is called and in which
//! order, memory, streams, events, the timeline, errors. Each test runs once more in a process of its
//! own that finds that driver first.

use std::process::Command;

use runtime::cuda::{
    CudaDevice, CudaError, CudaLoads, CudaOptions, CudaProbe, LIBRARIES_VARIABLE, Library,
    OpenError, open,
};
use runtime::device::{ActionError, Device, Load, RunFailure, Stop};
use runtime::layers::cell_from_index;
use runtime::network::Network;
use schema::{Basis, Bytes, CodecRef, Direction, Document, Fidelity, Nanos, Plan, Task, Trace};

use crate::networks;
use crate::problem::{SEED, machine, planned, trace, zvc};
use crate::reference::{bits, seed_of};
use crate::stand_in::stand_in;

/// Whether this is the process in which a test of this file is to run. Otherwise runs the test there,
/// with settings for the driver.
fn is_inside(test: &str, settings: &[(&str, &str)]) -> bool {
    is_inside_with(&format!("device::{test}"), &[], settings)
}

/// The same for a test anywhere, with libraries beside driver and compiler.
pub fn is_inside_with(test: &str, libraries: &[&str], settings: &[(&str, &str)]) -> bool {
    if std::env::var_os("TIDEGATE_STAND_IN").is_some() {
        return true;
    }
    let names = [&["libcuda.so", "libnvrtc.so"], libraries].concat();
    let Some(folder) = stand_in(&names) else { return false };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    command.env("LD_LIBRARY_PATH", &folder).env(LIBRARIES_VARIABLE, &folder);
    command.env("TIDEGATE_STAND_IN", "1");
    settings.iter().for_each(|(name, value)| {
        command.env(name, value);
    });
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

pub fn opened<'a>(network: &'a Network, trace: &'a Trace, plan: &'a Plan) -> CudaDevice<'a> {
    let options = CudaOptions { seed: SEED, ..CudaOptions::default() };
    open(network, trace, plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs iterations and returns what they leave, with dropout's seed of each.
pub fn outcome(device: &mut CudaDevice<'_>, network: &Network, plan: &Plan) -> Vec<Vec<u32>> {
    for iteration in 0..3 {
        if let Some((tensor, cells)) = seed_of(network, SEED, iteration) {
            device.write(tensor, &cells).unwrap();
        }
        let timeline = device.run().unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(timeline.check(), Ok(()));
        assert_eq!(timeline.basis, Basis::Measured);
        assert_eq!(timeline.intervals.len(), plan.actions.len());
        for (interval, action) in timeline.intervals.iter().zip(&plan.actions) {
            for on in &action.after {
                assert!(timeline.intervals[on.index()].end <= interval.start);
            }
        }
        assert!(timeline.peak <= plan.predicted.arena);
    }
    let mut left: Vec<_> =
        plan.buffers.iter().filter(|b| b.at_end).filter_map(|b| b.tensor).collect();
    left.sort_unstable();
    let read = left.iter().map(|tensor| {
        let mut cells = vec![0.0; network.tensor(*tensor).elements];
        device.read(*tensor, &mut cells).unwrap();
        bits(&cells)
    });
    read.collect()
}

#[test]
fn plans_leave_the_same_bits() {
    if !is_inside("plans_leave_the_same_bits", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let mut trace = trace(&network);
    // Told of more zeros than there are, plans with codecs reserve too little for some.
    for tensor in &mut trace.tensors {
        tensor.sparsity = tensor.sparsity.map(|share| (share * 1.6).min(0.95));
    }
    let whole = planned(&trace, &machine(false), "in-core", 105, None);
    let mut in_core = opened(&network, &trace, &whole);
    assert_eq!(in_core.name(), "stand-in");
    let expected = outcome(&mut in_core, &network, &whole);
    drop(in_core);
    for (method, percent, codec_lane) in
        [("swap-all", 60, false), ("tide", 70, false), ("cswap", 70, true)]
    {
        let models = zvc(0);
        let plan =
            planned(&trace, &machine(codec_lane), method, percent, codec_lane.then_some(&models));
        let mut device = opened(&network, &trace, &plan);
        assert!(outcome(&mut device, &network, &plan) == expected, "{method}");
        let memory = device.memory();
        assert_eq!(memory.arena, plan.predicted.arena, "{method}");
        assert_eq!(memory.host_arena, plan.predicted.host_arena, "{method}");
        assert!(memory.live <= memory.arena && memory.outside.0 > 0, "{method}");
        assert_eq!(memory.fallbacks > 0, codec_lane, "{method}");
    }
}

/// The host makes tensors smaller on their way, and keeps what does not become as small as was
/// reserved.
#[test]
fn plans_that_the_host_compresses_for_leave_the_same_bits() {
    if !is_inside("plans_that_the_host_compresses_for_leave_the_same_bits", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let mut trace = trace(&network);
    for (told, fallbacks) in [(1.0, false), (1.6, true)] {
        for tensor in &mut trace.tensors {
            tensor.sparsity = tensor.sparsity.map(|share| (share * told).min(0.95));
        }
        let whole = planned(&trace, &machine(false), "in-core", 105, None);
        let expected = outcome(&mut opened(&network, &trace, &whole), &network, &whole);
        let margin = if fallbacks { 0 } else { 300 };
        let plan = planned(&trace, &machine(false), "vdnn++", 70, Some(&zvc(margin)));
        assert!(plan.actions.iter().any(|action| plan.packed_by_host(action).is_some()));
        for graph in [false, true] {
            let options = CudaOptions { seed: SEED, graph, ..CudaOptions::default() };
            let mut device = open(&network, &trace, &plan, &options).unwrap();
            assert!(outcome(&mut device, &network, &plan) == expected, "told {told}, {graph}");
            let memory = device.memory();
            assert_eq!(memory.fallbacks > 0, fallbacks, "told {told}, {graph}");
            assert_eq!(memory.host_arena, plan.predicted.host_arena);
            assert!(memory.outside.0 > 0);
        }
    }
}

/// A codec of the host that fails fails its action.
#[test]
fn what_the_host_cannot_compress_is_said() {
    if !is_inside("what_the_host_cannot_compress_is_said", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let mut plan = planned(&trace, &machine(false), "vdnn++", 70, Some(&zvc(300)));
    // The method compresses with a codec that takes every value; this one does not.
    plan.codecs =
        vec![CodecRef { codec: "zfp".into(), parameter: Some(8.0), fidelity: Fidelity::FixedRate }];
    let mut device = opened(&network, &trace, &plan);
    let weights = plan.buffers.iter().filter(|buffer| buffer.at_start).filter_map(|b| b.tensor);
    let weights: Vec<_> =
        weights.filter(|tensor| network.tensor(*tensor).name == "conv1.weight").collect();
    let [weights] = *weights else { panic!("{weights:?}") };
    device.write(weights, &vec![f32::INFINITY; network.tensor(weights).elements]).unwrap();
    let failure = device.run().expect_err("ZFP keeps no infinity");
    let RunFailure::Action { task, source, .. } = &failure else { panic!("{failure}") };
    assert!(matches!(task, Task::D2h(_)), "{failure:?}");
    assert!(matches!(source, ActionError::Codec(_)), "{source}");
    assert_eq!(device.run(), Err(RunFailure::Unusable));
}

/// Other bits than kernels', perhaps, but the same ones for every plan.
#[test]
fn plans_leave_the_same_bits_with_cublas() {
    let test = "device::plans_leave_the_same_bits_with_cublas";
    if !is_inside_with(test, &["libcublas.so"], &[]) {
        return;
    }
    for name in ["resnet", "transformer"] {
        let network = networks::small(name);
        let trace = trace(&network);
        let whole = planned(&trace, &machine(false), "in-core", 105, None);
        let mut in_core = opened(&network, &trace, &whole);
        let expected = outcome(&mut in_core, &network, &whole);
        // cuBLAS has memory of its own.
        assert!(in_core.memory().outside.0 > 32 << 20);
        drop(in_core);
        let plan = planned(&trace, &machine(false), "tide", 70, None);
        let mut device = opened(&network, &trace, &plan);
        assert!(outcome(&mut device, &network, &plan) == expected, "{name}");
    }
}

/// As many zeros as the host counts in the same iteration, where both compute nearly the same.
#[test]
fn zeros_are_counted_as_on_the_host() {
    if !is_inside("zeros_are_counted_as_on_the_host", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "in-core", 105, None);
    let options = CudaOptions { seed: SEED, count_zeros: true, ..CudaOptions::default() };
    let mut device = open(&network, &trace, &plan, &options).unwrap();
    assert!(device.zeros().unwrap().iter().all(Option::is_none), "nothing has run");
    for iteration in 0..2 {
        if let Some((tensor, cells)) = seed_of(&network, SEED, iteration) {
            device.write(tensor, &cells).unwrap();
        }
        device.run().unwrap();
        if iteration == 0 {
            let counted = device.zeros().unwrap();
            let expected = trace.tensors.iter().map(|tensor| tensor.sparsity);
            let mut some = 0;
            for (tensor, (counted, expected)) in counted.iter().zip(expected).enumerate() {
                let (Some(counted), Some(expected)) = (counted, expected) else { continue };
                some += usize::from(expected > 0.0 && expected < 1.0);
                let apart = (counted - expected).abs();
                let name = &trace.tensors[tensor].name;
                // The gradient of a bias before a norm cancels: whether to zero is rounding's to say.
                if name == "conv1.bias.grad" {
                    continue;
                }
                assert!(apart < 0.01, "{counted} and {expected} of `{name}`");
            }
            assert!(some > 5, "{some} tensors have zeros");
        }
    }
}

/// Every load runs alone and beside the others until it ends.
#[test]
fn loads_run_beside_each_other() {
    if is_inside("loads_run_beside_each_other", &[("TIDEGATE_MEMORY", "8000000")]) {
        loads_of("our own kernels");
    }
}

/// The product is the one that plans run.
#[test]
fn loads_run_beside_products_of_cublas() {
    let settings = [("TIDEGATE_MEMORY", "60000000")];
    let test = "device::loads_run_beside_products_of_cublas";
    if is_inside_with(test, &["libcublas.so"], &settings) {
        loads_of("cuBLAS");
    }
}

fn loads_of(product: &str) {
    let mut loads = CudaLoads::open(&CudaOptions::default()).unwrap();
    assert_eq!(loads.product(), product);
    for load in Load::ALL {
        for beside in [&[][..], &Load::ALL] {
            assert!(loads.time(load, beside).unwrap() > Nanos::ZERO, "{load}");
        }
    }
}

#[test]
fn a_stop_is_taken_between_actions() {
    if !is_inside("a_stop_is_taken_between_actions", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "swap-all", 60, None);
    let stop = Stop::default();
    let options = CudaOptions { stop: stop.clone(), ..CudaOptions::default() };
    let mut device = open(&network, &trace, &plan, &options).unwrap();
    device.run().unwrap();
    stop.request();
    assert_eq!(device.run(), Err(RunFailure::Stopped));
}

#[test]
fn a_wrong_label_fails_the_loss_and_nothing_runs_after() {
    if !is_inside("a_wrong_label_fails_the_loss_and_nothing_runs_after", &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "in-core", 105, None);
    let mut device = opened(&network, &trace, &plan);
    let labels = network.labels().unwrap();
    let wrong = vec![cell_from_index(1 << 30); network.tensor(labels).elements];
    device.write(labels, &wrong).unwrap();
    let failure = device.run().expect_err("no class has that number");
    let RunFailure::Action { name, task, source, .. } = &failure else { panic!("{failure}") };
    assert!(name.starts_with("loss") && matches!(task, Task::Run(_)), "{name}");
    assert!(matches!(source, ActionError::Device { what } if what.contains("label")), "{source}");
    assert_eq!(device.run(), Err(RunFailure::Unusable));
    assert!(device.read(labels, &mut [0.0]).is_err());
}

#[test]
fn a_probe_says_what_the_device_says_and_copies() {
    if !is_inside("a_probe_says_what_the_device_says_and_copies", &[]) {
        return;
    }
    let mut probe = CudaProbe::open(0, Bytes(1 << 20)).unwrap();
    let facts = probe.facts().unwrap();
    assert_eq!((facts.name.as_str(), facts.memory), ("stand-in", Bytes(1 << 30)));
    assert_eq!(facts.free, facts.memory, "the probe's own memory is not taken off");
    assert_eq!(facts.uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
    assert_eq!((facts.capability, facts.driver, facts.multiprocessors), ((9, 0), (12, 0), 2));
    assert_eq!((facts.clock_khz, facts.memory_clock_khz), (1_500_000, 2_000_000));
    assert_eq!(probe.largest(), Bytes(1 << 20));
    assert_eq!(facts.f32_flops, 2 * 2 * 128 * 1_500_000_000);
    assert_eq!(facts.memory_bandwidth, 2 * 2_000_000_000 * 256 / 8);
    for bytes in [Bytes(0), Bytes(4096), Bytes(1 << 21)] {
        // A copy takes some time there, whatever it copies.
        for direction in [Direction::D2h, Direction::H2d] {
            assert!(probe.alone(direction, bytes).unwrap() > Nanos::ZERO);
            assert!(probe.pageable(direction, bytes).unwrap() > Nanos::ZERO);
        }
        assert!(probe.both(bytes).unwrap() > Nanos::ZERO);
    }
    assert!(
        CudaProbe::open(7, Bytes(1))
            .is_err_and(|error| { error == CudaError::NoSuchDevice { ordinal: 7, count: 1 } })
    );
}

/// What opening says where something is missing.
fn refusal() -> CudaError {
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "in-core", 105, None);
    let opened = open(&network, &trace, &plan, &CudaOptions::default());
    match opened.map(|_| ()).expect_err("something is missing") {
        OpenError::Cuda(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_driver_without_a_device_is_said() {
    if is_inside("a_driver_without_a_device_is_said", &[("TIDEGATE_DEVICES", "0")]) {
        let error = refusal();
        assert!(matches!(error, CudaError::NoDevice { .. }), "{error}");
        assert!(error.to_string().contains("nvidia-smi"), "{error}");
    }
}

#[test]
fn an_old_device_is_said() {
    if is_inside("an_old_device_is_said", &[("TIDEGATE_CAPABILITY", "61")]) {
        let error = refusal();
        assert!(matches!(error, CudaError::TooOld { capability: (6, 1), .. }), "{error}");
    }
}

#[test]
fn an_old_driver_is_said() {
    if is_inside("an_old_driver_is_said", &[("TIDEGATE_DRIVER", "11080")]) {
        let error = refusal();
        assert!(matches!(error, CudaError::OldDriver { version: (11, 8), .. }), "{error}");
        assert!(error.to_string().contains("11.8, and 12.0 is the least"), "{error}");
    }
}

#[test]
fn too_little_memory_is_said() {
    if is_inside("too_little_memory_is_said", &[("TIDEGATE_MEMORY", "20000")]) {
        let error = refusal();
        let CudaError::TooLittleMemory { needed, free, .. } = error else { panic!("{error}") };
        assert!(needed > free && free.0 == 20_000);
    }
}

#[test]
fn too_little_pinned_memory_is_said() {
    if is_inside("too_little_pinned_memory_is_said", &[("TIDEGATE_PINNED", "0")]) {
        let error = refusal();
        assert!(matches!(error, CudaError::NoPinnedMemory { .. }), "{error}");
        assert!(error.to_string().contains("ulimit"), "{error}");
    }
}

/// Without a driver, whatever else is there.
#[test]
fn no_driver_is_said() {
    if Library::Driver.is_present() {
        eprintln!("skipped: this machine has a driver");
        return;
    }
    let error = refusal();
    assert_eq!(error, CudaError::NoDriver);
    assert!(error.to_string().contains("--device host"), "{error}");
}

/// With a driver and without the compiler.
#[test]
fn no_compiler_is_said() {
    if std::env::var_os("TIDEGATE_STAND_IN").is_none() {
        let Some(driver_alone) = stand_in(&["libcuda.so"]) else { return };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["device::no_compiler_is_said", "--exact"]);
        command.env("LD_LIBRARY_PATH", &driver_alone).env(LIBRARIES_VARIABLE, &driver_alone);
        command.env("TIDEGATE_STAND_IN", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let error = refusal();
    let missing =
        CudaError::NoLibrary { library: Library::Nvrtc, driver: Some(12), refused: Vec::new() };
    assert_eq!(error, missing);
    let said = error.to_string();
    for part in ["pip install nvidia-cuda-nvrtc-cu12`", "--cuda-libraries"] {
        assert!(said.contains(part), "{said}");
    }
}

/// A compiler of a newer CUDA makes what the driver does not load.
#[test]
fn a_compiler_that_is_newer_than_the_driver_is_not_used() {
    let test = "a_compiler_that_is_newer_than_the_driver_is_not_used";
    if is_inside(test, &[("TIDEGATE_NVRTC", "13")]) {
        let said = refusal().to_string();
        assert!(said.starts_with("no libnvrtc.so will do ("), "{said}");
        assert!(said.contains("is of CUDA 13, the driver of CUDA 12)"), "{said}");
    }
}

/// A device that the compiler does not know yet, and one that it knows no longer.
#[test]
fn devices_are_compiled_for_as_the_compiler_knows_them() {
    let test = "devices_are_compiled_for_as_the_compiler_knows_them";
    if is_inside(test, &[("TIDEGATE_CAPABILITY", "120")]) {
        let network = networks::small("vgg");
        let trace = trace(&network);
        let whole = planned(&trace, &machine(false), "in-core", 105, None);
        opened(&network, &trace, &whole).run().unwrap();
    }
}
