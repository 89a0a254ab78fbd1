//! A network learns on a device, and codecs do to that what they say.

use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{Device, MemoryUse};
use runtime::training::{
    Constants, Course, Curves, Images, TrainingError, classifier, look_inside, train,
};
use schema::{Bytes, OpId, Plan};

use crate::problem::{self, SEED, Subject, sz, zvc};

const IMAGES: Images = Images { side: 12, channels: 1, noise: 0.3, seed: 7 };
const COURSE: Course = Course { epochs: 2, batches: 50, test_batches: 3, after: 0 };

fn options() -> HostOptions {
    HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) }
}

fn learn(subject: &Subject, plan: &Plan) -> (Curves, MemoryUse) {
    let Subject { network, trace } = subject;
    let mut device = HostDevice::new(network, trace, plan, &options()).unwrap();
    let mut curves = Curves::default();
    train(&mut device, network, &IMAGES, COURSE, &mut curves, usize::MAX, |_| {}).unwrap();
    (curves, device.memory())
}

#[test]
fn a_network_is_trained_alike_in_core_and_compressed() {
    let subject = Subject::new(classifier(&IMAGES, 16).unwrap());
    let (zvc, sz) = (zvc(0), sz(1e-3));
    let plan = |method, percent, codec| subject.plan(method, percent, true, codec);
    let (in_core, roomy) = learn(&subject, &plan("in-core", 105, None));
    let iterations = COURSE.epochs * COURSE.batches;
    assert_eq!((in_core.losses.len(), in_core.iterations.len()), (iterations, iterations));
    assert_eq!(in_core.accuracies.len(), COURSE.epochs);
    // One of ten is chance.
    assert!(in_core.accuracies[1] > 0.5, "{:?}", in_core.accuracies);

    let (lossless, memory) = learn(&subject, &plan("sc", 85, Some(&zvc)));
    assert_eq!(lossless.losses, in_core.losses);
    assert_eq!(lossless.accuracies, in_core.accuracies);
    assert!(memory.arena < roomy.arena);
    assert!(in_core.copied.iter().all(|bytes| *bytes == Bytes::ZERO));
    assert!(lossless.copied.iter().all(|bytes| *bytes > Bytes::ZERO));

    let (lossy, _) = learn(&subject, &plan("comet", 85, Some(&sz)));
    assert_ne!(lossy.losses, in_core.losses);
    assert!(lossy.accuracies[1] > 0.5, "{:?}", lossy.accuracies);
}

#[test]
fn looking_inside_changes_nothing() {
    let subject = Subject::new(classifier(&IMAGES, 4).unwrap());
    let Subject { network, trace } = &subject;
    let plan = subject.plan("in-core", 105, false, None);
    let course = Course { epochs: 1, batches: 3, test_batches: 0, after: 0 };
    let losses = |looks: bool| {
        let mut device = HostDevice::new(network, trace, &plan, &options()).unwrap();
        let mut curves = Curves::default();
        train(&mut device, network, &IMAGES, course, &mut curves, 2, |_| {}).unwrap();
        assert_eq!((curves.losses.len(), curves.accuracies.len()), (2, 0));
        let mut seen = Vec::new();
        if looks {
            let see = |id: OpId, in_core: &runtime::profile::InCore| {
                let made = network.op(id).writes.iter().chain(&network.op(id).updates);
                assert!(made.clone().all(|tensor| in_core.get(*tensor).is_some()));
                seen.push(id);
            };
            look_inside(&mut device, network, (&IMAGES, 1), see).unwrap();
            assert_eq!(seen.len(), network.ops().len());
        }
        train(&mut device, network, &IMAGES, course, &mut curves, 99, |_| {}).unwrap();
        assert_eq!((curves.losses.len(), curves.accuracies.len()), (3, 1));
        curves.losses
    };
    assert_eq!(losses(true), losses(false));
}

#[test]
fn training_goes_on_on_another_device() {
    let subject = Subject::new(classifier(&IMAGES, 4).unwrap());
    let Subject { network, trace } = &subject;
    let roomy = subject.plan("in-core", 105, false, None);
    let tight = subject.plan("swap-all", 92, false, None);
    let course = Course { epochs: 2, batches: 3, test_batches: 1, after: 0 };
    let outcome = |plans: [&Plan; 2], change: usize| {
        let mut curves = Curves::default();
        let mut constants = None::<Constants>;
        for (plan, until) in plans.into_iter().zip([change, course.iterations()]) {
            let mut device = HostDevice::new(network, trace, plan, &options()).unwrap();
            constants.iter().for_each(|of| of.write(&mut device, network).unwrap());
            train(&mut device, network, &IMAGES, course, &mut curves, until, |_| {}).unwrap();
            constants = Some(Constants::read(&mut device, network).unwrap());
        }
        (curves.losses, curves.accuracies, constants)
    };
    let expected = outcome([&roomy, &roomy], 6);
    assert_eq!(expected.0.len(), 6);
    for change in [1, 3, 4] {
        assert!(outcome([&roomy, &tight], change) == expected, "changed after {change}");
    }
    assert!(outcome([&roomy, &roomy], 5).2 == expected.2);
    let other = Course { batches: 2, ..course };
    let mut curves = Curves::default();
    let mut device = HostDevice::new(network, trace, &roomy, &options()).unwrap();
    train(&mut device, network, &IMAGES, other, &mut curves, 9, |_| {}).unwrap();
    let constants = Constants::read(&mut device, network).ok();
    assert!(constants != expected.2, "other weights are not the same");
}

#[test]
fn images_that_a_network_does_not_take_are_refused() {
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    let plan = subject.plan("in-core", 105, false, None);
    let mut device = HostDevice::new(network, trace, &plan, &options()).unwrap();
    let mut curves = Curves::default();
    let error = train(&mut device, network, &IMAGES, COURSE, &mut curves, 1, |_| {}).unwrap_err();
    assert!(matches!(error, TrainingError::OtherImages { .. }), "{error:?}");
}
