//! A network learns on a device, and codecs do to that what they say.

use runtime::device::host::{HostDevice, HostOptions};
use runtime::training::{Course, Curves, Images, TrainingError, classifier, look_inside, train};
use schema::{OpId, Plan};

use crate::networks;
use crate::problem::{self, SEED, planned, sz, zvc};

const IMAGES: Images = Images { side: 12, channels: 1, noise: 0.3, seed: 7 };
const COURSE: Course = Course { epochs: 2, batches: 50, test_batches: 3 };

fn learn(network: &runtime::network::Network, trace: &schema::Trace, plan: &Plan) -> Curves {
    let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) };
    let mut device = HostDevice::new(network, trace, plan, &options).unwrap();
    train(&mut device, network, &IMAGES, COURSE, |_| {}).unwrap()
}

#[test]
fn a_network_learns_alike_in_core_and_compressed() {
    let network = classifier(&IMAGES, 16).unwrap();
    let trace = problem::trace(&network);
    let machine = problem::machine(true);
    let (zvc, sz) = (zvc(0), sz(1e-3));
    let plan = |method, percent, codec| planned(&trace, &machine, method, percent, codec);
    let in_core = learn(&network, &trace, &plan("in-core", 105, None));
    let iterations = COURSE.epochs * COURSE.batches;
    assert_eq!((in_core.losses.len(), in_core.iterations.len()), (iterations, iterations));
    assert_eq!(in_core.accuracies.len(), COURSE.epochs);
    // Guessing is right for one image in ten.
    assert!(in_core.accuracies[1] > 0.3, "{:?}", in_core.accuracies);

    let lossless = learn(&network, &trace, &plan("sc", 85, Some(&zvc)));
    assert_eq!(lossless.losses, in_core.losses);
    assert_eq!(lossless.accuracies, in_core.accuracies);
    assert!(lossless.memory.arena < in_core.memory.arena);

    let lossy = learn(&network, &trace, &plan("comet", 85, Some(&sz)));
    assert_ne!(lossy.losses, in_core.losses);
    assert!(lossy.accuracies[1] > 0.3, "{:?}", lossy.accuracies);
}

#[test]
fn looking_inside_changes_nothing() {
    let network = classifier(&IMAGES, 4).unwrap();
    let trace = problem::trace(&network);
    let plan = planned(&trace, &problem::machine(false), "in-core", 105, None);
    let course = Course { epochs: 1, batches: 3, test_batches: 0 };
    let losses = |looks: bool| {
        let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(50_000)) };
        let mut device = HostDevice::new(&network, &trace, &plan, &options).unwrap();
        let mut losses = train(&mut device, &network, &IMAGES, course, |_| {}).unwrap().losses;
        let mut seen = Vec::new();
        if looks {
            let see = |id: OpId, in_core: &runtime::profile::InCore| {
                let made = network.op(id).writes.iter().chain(&network.op(id).updates);
                assert!(made.clone().all(|tensor| in_core.get(*tensor).is_some()));
                seen.push(id);
            };
            look_inside(&mut device, &network, &IMAGES, see).unwrap();
            assert_eq!(seen.len(), network.ops().len());
        }
        losses.extend(train(&mut device, &network, &IMAGES, course, |_| {}).unwrap().losses);
        losses
    };
    assert_eq!(losses(true), losses(false));
}

#[test]
fn images_that_a_network_does_not_take_are_refused() {
    let network = networks::small("vgg");
    let trace = problem::trace(&network);
    let plan = planned(&trace, &problem::machine(false), "in-core", 105, None);
    let options = HostOptions::new(problem::link(50_000));
    let mut device = HostDevice::new(&network, &trace, &plan, &options).unwrap();
    let error = train(&mut device, &network, &IMAGES, COURSE, |_| {}).unwrap_err();
    assert!(matches!(error, TrainingError::OtherImages { .. }), "{error:?}");
}
