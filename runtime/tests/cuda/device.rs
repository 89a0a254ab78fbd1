//! The CUDA device itself, on a driver that is none (see `driver.h`): what is called and in which
//! order, memory, streams, events, the timeline, errors. Each test runs once more in a process of
//! its own that finds that driver first.

use runtime::cuda::{
    CudaDevice, CudaError, CudaLoads, CudaOptions, CudaProbe, Library, OpenError, open,
};
use runtime::device::{ActionError, Device, Load, RunFailure, Stop};
use runtime::layers::cell_from_index;
use schema::{Bytes, CodecRef, Direction, Fidelity, Nanos, Plan, Task};

use crate::inside::{inside, inside_alone};
use crate::problem::{SEED, Subject, zvc};
use crate::reference::seed_of;

pub fn opened<'a>(subject: &'a Subject, plan: &'a Plan) -> CudaDevice<'a> {
    let options = CudaOptions { seed: SEED, ..CudaOptions::default() };
    let opened = open(&subject.network, &subject.trace, plan, &options);
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// A codec of the host that fails fails its action.
#[test]
fn what_the_host_cannot_compress_is_said() {
    let Some(()) = inside(&[], &[]) else { return };
    let subject = Subject::small("vgg");
    let mut plan = subject.plan("vdnn++", 70, false, Some(&zvc(300)));
    // The method compresses with a codec that takes every value; this one does not.
    plan.codecs =
        vec![CodecRef { codec: "zfp".into(), parameter: Some(8.0), fidelity: Fidelity::FixedRate }];
    let mut device = opened(&subject, &plan);
    let weights = plan.buffers.iter().filter(|buffer| buffer.at_start).filter_map(|b| b.tensor);
    let weights: Vec<_> =
        weights.filter(|tensor| subject.network.tensor(*tensor).name == "conv1.weight").collect();
    let [weights] = *weights else { panic!("{weights:?}") };
    device.write(weights, &vec![f32::INFINITY; subject.network.tensor(weights).elements]).unwrap();
    let failure = device.run().expect_err("ZFP keeps no infinity");
    let RunFailure::Action { task, source, .. } = &failure else { panic!("{failure}") };
    assert!(matches!(task, Task::D2h(_)), "{failure:?}");
    assert!(matches!(source, ActionError::Codec(_)), "{source}");
    assert_eq!(device.run(), Err(RunFailure::Unusable));
}

/// As many zeros as the host counts in the same iteration, where both compute nearly the same.
#[test]
fn zeros_are_counted_as_on_the_host() {
    let Some(()) = inside(&[], &[]) else { return };
    let subject = Subject::small("vgg");
    let plan = subject.plan("in-core", 105, false, None);
    let options = CudaOptions { seed: SEED, count_zeros: true, ..CudaOptions::default() };
    let mut device = open(&subject.network, &subject.trace, &plan, &options).unwrap();
    assert!(device.zeros().unwrap().iter().all(Option::is_none), "nothing has run");
    for iteration in 0..2 {
        if let Some((tensor, cells)) = seed_of(&subject.network, SEED, iteration) {
            device.write(tensor, &cells).unwrap();
        }
        device.run().unwrap();
        if iteration == 0 {
            let counted = device.zeros().unwrap();
            let expected = subject.trace.tensors.iter().map(|tensor| tensor.sparsity);
            let mut some = 0;
            for (tensor, (counted, expected)) in counted.iter().zip(expected).enumerate() {
                let (Some(counted), Some(expected)) = (counted, expected) else { continue };
                some += usize::from(expected > 0.0 && expected < 1.0);
                let apart = (counted - expected).abs();
                let name = &subject.trace.tensors[tensor].name;
                // The gradient of a bias before a norm cancels: whether to zero is rounding's to
                // say.
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
    let Some(()) = inside(&[], &[("TIDEGATE_MEMORY", "8000000")]) else { return };
    loads_of("our own kernels");
}

#[test]
fn loads_run_beside_products_of_cublas() {
    let settings = [("TIDEGATE_MEMORY", "60000000")];
    let Some(()) = inside(&["libcublas.so"], &settings) else { return };
    loads_of("cuBLAS");
}

fn loads_of(product: &str) {
    let mut loads = CudaLoads::open(&CudaOptions::default()).unwrap();
    assert_eq!(loads.product(), product);
    for &load in Load::ALL {
        for beside in [&[][..], Load::ALL] {
            assert!(loads.time(load, beside).unwrap() > Nanos::ZERO, "{load}");
        }
    }
}

#[test]
fn a_stop_is_taken_between_actions_and_between_graphs() {
    let Some(()) = inside(&[], &[]) else { return };
    let subject = Subject::small("vgg");
    let plan = subject.plan("swap-all", 60, false, None);
    for graph in [false, true] {
        let stop = Stop::default();
        let options = CudaOptions { graph, stop: stop.clone(), ..CudaOptions::default() };
        let mut device = open(&subject.network, &subject.trace, &plan, &options).unwrap();
        device.run().unwrap();
        device.run().unwrap();
        stop.request();
        assert_eq!(device.run(), Err(RunFailure::Stopped), "{graph}");
    }
}

/// Command by command, and in a graph.
#[test]
fn a_wrong_label_fails_the_loss_and_nothing_runs_after() {
    let Some(()) = inside(&[], &[]) else { return };
    let subject = Subject::small("vgg");
    let plan = subject.plan("in-core", 105, false, None);
    for graph in [false, true] {
        let options = CudaOptions { graph, ..CudaOptions::default() };
        let mut device = open(&subject.network, &subject.trace, &plan, &options).unwrap();
        device.run().unwrap();
        let labels = subject.network.labels().unwrap();
        let wrong = vec![cell_from_index(1 << 30); subject.network.tensor(labels).elements];
        device.write(labels, &wrong).unwrap();
        let failure = device.run().expect_err("no class has that number");
        let RunFailure::Action { name, task, source, .. } = &failure else { panic!("{failure}") };
        assert!(name.starts_with("loss") && matches!(task, Task::Run(_)), "{name}");
        let ActionError::Device { what } = source else { panic!("{source}") };
        assert!(what.contains("label"), "{what}");
        assert_eq!(device.run(), Err(RunFailure::Unusable));
        assert!(device.read(labels, &mut [0.0]).is_err());
    }
}

#[test]
fn a_probe_says_what_the_device_says_and_copies() {
    let Some(()) = inside(&[], &[]) else { return };
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

fn refusal() -> CudaError {
    let subject = Subject::small("vgg");
    let plan = subject.plan("in-core", 105, false, None);
    let opened = open(&subject.network, &subject.trace, &plan, &CudaOptions::default());
    match opened.map(|_| ()).expect_err("something is missing") {
        OpenError::Cuda(error) => error,
        other => panic!("{other}"),
    }
}

/// What is missing or too little is said, by what the driver was told to be.
#[test]
fn what_is_missing_is_said() {
    let cases: [(&str, &str, &[&str]); 6] = [
        ("TIDEGATE_DEVICES", "0", &["sees no device", "check `nvidia-smi`"]),
        ("TIDEGATE_CAPABILITY", "61", &["has compute capability 6.1, and 7.0 is the least"]),
        ("TIDEGATE_DRIVER", "11080", &["is for CUDA 11.8, and 12.0 is the least"]),
        ("TIDEGATE_MEMORY", "20000", &["the plan needs ", " and 20.000 KB are free"]),
        ("TIDEGATE_PINNED", "0", &["of pinned memory", "raise `ulimit -l`"]),
        // A compiler of a newer CUDA makes what the driver does not load.
        ("TIDEGATE_NVRTC", "13", &["no libnvrtc.so will do (", "13, the driver of CUDA 12)"]),
    ];
    for (setting, value, parts) in cases {
        let is_set = || std::env::var(setting).is_ok_and(|set| set == value);
        if inside(&[], &[(setting, value)]).is_some() && is_set() {
            let said = refusal().to_string();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
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
    let Some(()) = inside_alone(&["libcuda.so"], &[]) else { return };
    let error = refusal();
    let missing =
        CudaError::NoLibrary { library: Library::Nvrtc, driver: Some(12), refused: Vec::new() };
    assert_eq!(error, missing);
    let said = error.to_string();
    for part in ["pip install nvidia-cuda-nvrtc-cu12`", "--cuda-libraries"] {
        assert!(said.contains(part), "{said}");
    }
}

/// A device that the compiler does not know yet, and one that it knows no longer.
#[test]
fn devices_are_compiled_for_as_the_compiler_knows_them() {
    let Some(()) = inside(&[], &[("TIDEGATE_CAPABILITY", "120")]) else { return };
    let subject = Subject::small("vgg");
    let whole = subject.plan("in-core", 105, false, None);
    opened(&subject, &whole).run().unwrap();
}
