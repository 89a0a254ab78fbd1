//! Whatever the timing, an iteration ends, with the same bits.

use std::time::Duration;

use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{Delays, Device, HostTensors};
use schema::TensorId;

use crate::problem::{self, SEED, Subject, zvc};
use crate::reference::{assert_left, left_in_core, outcome};

/// So many iterations with delays before half of the actions; every few of them a new device with
/// other delays.
fn ends_with_the_same_bits(method: &str, runs: u64) {
    const RUNS_EACH: u64 = 25;
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    let plan = subject.plan(method, 65, true, Some(&zvc(0)));
    let expected = left_in_core(network, SEED, RUNS_EACH as usize);
    for seed in 0..runs / RUNS_EACH {
        let delays = Some(Delays { seed, longest: Duration::from_micros(30) });
        let link = problem::link(50_000);
        let options = HostOptions { seed: SEED, delays, ..HostOptions::new(link) };
        let mut device = HostDevice::new(network, trace, &plan, &options).unwrap();
        for _ in 0..RUNS_EACH {
            device.run().unwrap_or_else(|error| panic!("{method}, delays {seed}: {error:?}"));
        }
        assert_left(&mut device, &expected, &format!("{method}, delays {seed}"));
    }
}

#[test]
fn a_thousand_runs_with_random_delays() {
    // Copies in both directions; codecs on a lane of their own; recomputation beside swapping.
    ends_with_the_same_bits("swap-all", 350);
    ends_with_the_same_bits("cswap", 350);
    ends_with_the_same_bits("tide", 300);
}

#[test]
fn constants_begin_where_they_ended_and_may_be_rewritten() {
    let subject = Subject::small("alexnet");
    let Subject { network, trace } = &subject;
    let plan = subject.plan("tide", 70, false, None);
    let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) };
    let mut device = HostDevice::new(network, trace, &plan, &options).unwrap();
    let mut reference = HostTensors::new(network, SEED);
    let input = network.inputs().next().expect("it has inputs");
    for iteration in 0..5 {
        let pixels = vec![0.1 * iteration as f32; network.tensor(input).elements];
        device.write(input, &pixels).unwrap();
        reference.tensors[input.index()] = pixels;
        device.run().unwrap();
        reference.iterate().unwrap();
        assert_left(&mut device, &outcome(network, &reference), &format!("iteration {iteration}"));
    }
}

#[test]
fn only_what_is_there_between_iterations_is_read_and_written() {
    use runtime::device::AccessError;
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    let plan = subject.plan("in-core", 105, false, None);
    let options = HostOptions::new(problem::link(50_000));
    let mut device = HostDevice::new(network, trace, &plan, &options).unwrap();
    let loss = network.loss().expect("it has a loss");
    let not_there = |error| matches!(error, Err(AccessError::NotThere { .. }));
    assert!(not_there(device.read(loss, &mut [0.0])), "before the first iteration");
    device.run().unwrap();
    assert_eq!(device.read(loss, &mut [0.0]), Ok(()));
    assert!(not_there(device.write(loss, &[0.0])), "a result is not written");
    let activation = network.ops()[0].writes[0];
    assert!(not_there(device.read(activation, &mut [0.0])), "an activation is gone");
    assert!(not_there(device.read(TensorId(9999), &mut [0.0])), "no such tensor");
    let long = Err(AccessError::Length { tensor: loss, expected: 1, found: 2 });
    assert_eq!(device.read(loss, &mut [0.0; 2]), long);
}
