//! COMET on the networks of its paper, as Caffe runs them: what is in memory, and what it makes
//! smaller.

use networks::{Conventions, NetworkOptions, modelled_trace_by, network};
use planner::methods::{Comet, Method};
use planner::{CodecOptions, NoMonitor, Problem};
use schema::{Bytes, OpKind};
use simulator::Treatment;

/// Of a network with a batch of 128: 1e9 bytes in core, and of the tensors that are compressed.
fn gigabytes(name: &str) -> (f64, f64) {
    let machine = scenarios::machine("comet-v100").expect("bundled");
    let options = NetworkOptions { batch: 128, ..NetworkOptions::default() };
    let network = network(name, &options).expect("bundled");
    let trace = modelled_trace_by(&network, &Conventions::CAFFE, &machine).expect("it is modelled");
    let codecs = scenarios::codec_models(&machine);
    let problem = Problem::new(&trace, &machine, Bytes(64_000_000_000))
        .with_codecs(&codecs, CodecOptions { sparsity: None, lossy: true });
    let decided = Comet::default().decide(&problem, problem.budget, &NoMonitor).expect("it fits");
    let (mut compressed, mut count) = (0, 0);
    for (gap, treatment) in problem.model.gaps().iter().zip(&decided.treatments) {
        if matches!(treatment, Treatment::Compress(_)) {
            compressed += gap.bytes.0;
            count += 1;
        }
    }
    let convolutions = trace.ops.iter().filter(|op| op.kind == OpKind::Convolution);
    let forward = convolutions.filter(|op| op.phase == schema::Phase::Forward).count();
    assert!(count <= forward, "{name}: {count} tensors of {forward} convolutions");
    (simulator::in_core(&trace).peak.0 as f64 / 1e9, compressed as f64 / 1e9)
}

/// Table 1 prints 2.17 and 17.29 GB in core, and 6.91 and 5.14 GB of activations of convolutions.
#[test]
fn table_1_comes_out_of_blobs() {
    let (alexnet, _) = gigabytes("alexnet-caffe");
    let (vgg, of_vgg) = gigabytes("vgg16");
    let (_, of_resnet) = gigabytes("resnet50-caffe");
    assert!((alexnet / 2.17 - 1.0).abs() < 0.15, "{alexnet}");
    // Positions of maxima are in it, 0.78 GB.
    assert!((vgg / 17.29 - 1.0).abs() < 0.05, "{vgg}");
    assert!((6.6..=7.0).contains(&of_vgg), "{of_vgg}");
    assert!((4.9..=5.6).contains(&of_resnet), "{of_resnet}");
}
