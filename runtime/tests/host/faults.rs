//! What goes wrong is said, with the action, and nothing hangs.

use std::time::Duration;

use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{AccessError, ActionError, Device, DeviceError, Fault, RunFailure, Stop};
use schema::{Bytes, Lane, Plan, Task, Trace};

use crate::networks;
use crate::problem::{self, Subject, zvc};

/// A plan of the small VGG, and its network and trace.
fn with_plan(method: &str, check: impl Fn(&runtime::network::Network, &Trace, &Plan)) {
    let subject = Subject::small("vgg");
    let plan = subject.plan(method, 65, true, Some(&zvc(0)));
    check(&subject.network, &subject.trace, &plan);
}

fn failure(method: &str, fault: &str) -> (RunFailure, String) {
    let failure = std::cell::RefCell::new(None);
    with_plan(method, |network, trace, plan| {
        let faults = vec![fault.parse().unwrap()];
        let options = HostOptions { faults, ..HostOptions::new(problem::link(50_000)) };
        let mut device = HostDevice::new(network, trace, plan, &options).unwrap();
        let error = device.run().expect_err("a fault");
        assert_eq!(device.run(), Err(RunFailure::Unusable));
        let loss = network.loss().expect("it has a loss");
        assert_eq!(device.read(loss, &mut [0.0]), Err(AccessError::Unusable));
        let mut chain = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            chain = format!("{chain}: {error}");
            source = error.source();
        }
        failure.replace(Some((error, chain)));
    });
    failure.into_inner().expect("a failure")
}

#[test]
fn a_copy_that_does_not_arrive_is_named() {
    for (fault, of, number) in [("copy-out:2", Lane::D2h, 2), ("copy-in:3", Lane::H2d, 3)] {
        let (error, chain) = failure("swap-all", fault);
        let RunFailure::Action { action, lane, task, source, .. } = error else {
            panic!("{chain}")
        };
        assert_eq!((lane, source), (of, ActionError::Link));
        assert!(matches!(task, Task::D2h(_) | Task::H2d(_)));
        assert!(chain.contains("the link failed"), "{chain}");
        with_plan("swap-all", |_, trace, plan| {
            let copies = plan.actions.iter().enumerate();
            let mut copies = copies.filter(|(_, other)| plan.lane(other) == of);
            assert_eq!(copies.nth(number - 1).map(|(index, _)| index), Some(action.index()));
            let (Task::D2h(id) | Task::H2d(id)) = task else { return };
            assert!(chain.contains(&trace.tensors[id.index()].name), "{chain}");
        });
    }
}

#[test]
fn host_memory_that_is_used_up_is_said_before_and_while_a_plan_runs() {
    let (error, chain) = failure("swap-all", "host-memory");
    let source = match error {
        RunFailure::Action { source, .. } => source,
        error => panic!("{error:?}"),
    };
    assert!(matches!(source, ActionError::HostMemory { .. }), "{chain}");
    with_plan("swap-all", |network, trace, plan| {
        let host_memory = Some(plan.host_budget - Bytes(1));
        let options = HostOptions { host_memory, ..HostOptions::new(problem::link(50_000)) };
        let error = HostDevice::new(network, trace, plan, &options).err();
        assert!(matches!(error, Some(DeviceError::HostMemory { .. })), "{error:?}");
        let host_memory = Some(plan.host_budget);
        let options = HostOptions { host_memory, ..options };
        assert!(HostDevice::new(network, trace, plan, &options).is_ok());
    });
}

#[test]
fn a_damaged_compressed_form_is_an_error_and_never_a_tensor() {
    for method in ["sc", "vdnn++"] {
        let (error, chain) = failure(method, "corrupt:1");
        let RunFailure::Action { task, source: ActionError::Codec(_), .. } = error else {
            panic!("{method}: {chain}")
        };
        let (Task::Decompress(tensor) | Task::H2d(tensor)) = task else {
            panic!("{method}: {chain}")
        };
        assert!(chain.contains("damaged"), "{chain}");
        // By the tensor's name as well.
        let network = networks::small("vgg");
        let name = &network.tensor(tensor).name;
        assert_eq!(failure(method, &format!("corrupt:{name}")).1, chain);
    }
}

#[test]
fn what_cannot_go_wrong_is_refused() {
    with_plan("swap-all", |network, trace, plan| {
        for fault in
            ["copy-out:999", "copy-in:999", "corrupt:1", "corrupt:nobody", "delay:codec:1:1us"]
        {
            let faults: Vec<Fault> = vec![fault.parse().unwrap()];
            let options = HostOptions { faults, ..HostOptions::new(problem::link(50_000)) };
            let error = HostDevice::new(network, trace, plan, &options).err();
            assert!(matches!(error, Some(DeviceError::Fault { .. })), "{fault}: {error:?}");
        }
    });
}

#[test]
fn a_late_action_changes_no_bit() {
    with_plan("swap-all", |network, trace, plan| {
        let loss = |faults: Vec<Fault>| {
            let options = HostOptions { faults, ..HostOptions::new(problem::link(50_000)) };
            let mut device = HostDevice::new(network, trace, plan, &options).unwrap();
            let timeline = device.run().unwrap();
            let mut loss = [0.0];
            device.read(network.loss().unwrap(), &mut loss).unwrap();
            (loss, timeline)
        };
        let by = Duration::from_millis(3);
        let late = |lane| Fault::Delay { lane, number: 1, by };
        let (on_time, _) = loss(Vec::new());
        let (delayed, timeline) = loss(vec![late(Lane::H2d), late(Lane::Compute)]);
        assert_eq!(on_time, delayed);
        // Whoever waits 3 ms has not ended after 2.
        assert!(timeline.iteration.0 > 2_000_000, "{}", timeline.iteration);
    });
}

#[test]
fn a_stop_is_heard_at_any_moment() {
    with_plan("swap-all", |network, trace, plan| {
        let stop = Stop::default();
        // A link so slow that the iteration would take minutes.
        let options = HostOptions { stop: stop.clone(), ..HostOptions::new(slow()) };
        let mut device = HostDevice::new(network, trace, plan, &options).unwrap();
        let asked = std::thread::spawn(move || stop.request());
        assert_eq!(device.run(), Err(RunFailure::Stopped));
        asked.join().unwrap();
        // Before an iteration as well: then nothing is torn off, but it goes on being asked for.
        assert_eq!(device.run(), Err(RunFailure::Stopped));
    });
}

fn slow() -> schema::Link {
    let bandwidth = schema::Bandwidth::constant(schema::BytesPerSec(1000));
    schema::Link { d2h: bandwidth.clone(), h2d: bandwidth, ..problem::link(1) }
}
