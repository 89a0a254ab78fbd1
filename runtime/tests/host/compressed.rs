//! Tensors that leave in a compressed form.

use runtime::device::Device;
use runtime::device::host::{HostDevice, HostOptions};
use schema::Task;

use crate::problem::{self, SEED, Subject, sz, zfp, zvc};
use crate::reference::{assert_left, left_in_core};

/// Zeros are fewer than the plan was told, so that tensors go out as they are.
#[test]
fn data_that_does_worse_than_was_reserved_for_goes_out_as_it_is() {
    let subject = Subject::small("vgg").told(1.6);
    let Subject { network, trace } = &subject;
    let expected = left_in_core(network, SEED, 3);
    for (method, codec_lane) in [("cswap", true), ("cswap", false), ("sc", true), ("vdnn++", true)]
    {
        let at = format!("{method}, codec lane {codec_lane}");
        let plan = subject.plan(method, 70, codec_lane, Some(&zvc(0)));
        let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) };
        let mut device = HostDevice::new(network, trace, &plan, &options).unwrap();
        let timelines: Vec<_> = (0..3).map(|_| device.run().unwrap()).collect();
        let memory = device.memory();
        assert!(memory.fallbacks > 0, "{at}: {memory:?}");
        assert!(memory.outside.0 > 0, "{at}: {memory:?}");
        assert_eq!(memory.arena, plan.predicted.arena, "{at}");
        if method != "vdnn++" {
            // Copies of compressed forms that were not made move nothing.
            let copies = timelines[2].intervals.iter();
            let mut copies = copies.filter(|i| matches!(i.task, Task::D2h(_)));
            assert!(copies.any(|copy| copy.bytes.0 == 0), "{at}");
        }
        assert_left(&mut device, &expected, &at);
    }
}

#[test]
fn a_network_trains_under_lossy_codecs() {
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    for (method, codec) in [("cswap+", zfp()), ("comet", sz(1e-3))] {
        let plan = subject.plan(method, 80, true, Some(&codec));
        let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) };
        let mut device = HostDevice::new(network, trace, &plan, &options).unwrap();
        let mut losses = Vec::new();
        for _ in 0..20 {
            device.run().unwrap_or_else(|error| panic!("{method}: {error:?}"));
            let mut loss = [0.0];
            device.read(network.loss().unwrap(), &mut loss).unwrap();
            losses.push(loss[0]);
        }
        assert!(losses[19] < losses[0], "{method}: {losses:?}");
        assert_eq!(device.memory().arena, plan.predicted.arena, "{method}");
    }
}
