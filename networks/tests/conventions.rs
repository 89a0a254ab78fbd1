//! The two conventions, held against each other for every network that comes with tidegate: the
//! same layers in the same order, of the same sizes, with as many operations.

use std::collections::BTreeMap;

use networks::layer::Compute;
use networks::{Conventions, Lowered, NetworkOptions, Op, Part, Step, network, networks};
use schema::{Dtype, OpKind, Phase, Role, TensorId};

/// Ops of the layers that frameworks have alike: copies and views are their own affair.
fn shared<'a>(lowered: &'a Lowered, phase: Phase) -> impl Iterator<Item = (&'a str, &'a Op<Step>)> {
    let graph = lowered.network.graph();
    let ops = lowered.tape.ops().iter().filter(move |op| op.phase == phase);
    let ops = ops.filter(|op| !matches!(op.step.part, Part::Running | Part::Sum | Part::Copy));
    let layers = ops.map(move |op| (&graph[op.step.layer], op));
    layers
        .filter(|(layer, _)| {
            let copies = matches!(layer.compute, Compute::View | Compute::Loss)
                || layer.name.contains(".copy")
                || layer.name == "loss.logits";
            !copies
        })
        .map(|(layer, op)| (layer.name.as_str(), op))
}

fn is_product(op: &Op<Step>) -> bool {
    matches!(op.work.kind, OpKind::Convolution | OpKind::MatrixProduct | OpKind::Attention)
}

#[test]
fn both_have_the_same_layers_sizes_and_operations() {
    for info in networks().filter(|info| info.size_of.is_none()) {
        for fused_attention in [true, false] {
            let dtype = Some(Dtype::F32);
            let options = NetworkOptions { batch: 2, fused_attention, dtype, ..Default::default() };
            let described = network(info.name, &options).unwrap();
            let both = [Conventions::PYTORCH, Conventions::TIDEGATE];
            let [pytorch, own] = both.map(|conventions| described.lower(&conventions));

            // What is trained, and from what.
            let constants = |lowered: &Lowered, role: Role| {
                let all = lowered.tape.tensors().iter().filter(|tensor| tensor.role == role);
                all.map(|tensor| (tensor.name.clone(), tensor.elements)).collect::<Vec<_>>()
            };
            let parameters = [&pytorch, &own].map(|lowered| constants(lowered, Role::Parameter));
            assert_eq!(parameters[0], parameters[1], "{}", info.name);

            // Forward: each layer, in the order of the graph, its output and its operations.
            let forward = |lowered: &Lowered| {
                let layers = shared(lowered, Phase::Forward).map(|(name, op)| {
                    let output = lowered.tape.tensor(op.writes[0]).elements;
                    (name.to_string(), output, op.work.flops, op.work.class)
                });
                layers.collect::<Vec<_>>()
            };
            let (ours, theirs) = (forward(&own), forward(&pytorch));
            assert!(ours.len() > 4, "{}", info.name);
            assert_eq!(ours, theirs, "{}", info.name);

            // Backward: the layers in the opposite order, and the operations of each product's
            // gradients. What needs no gradient is left out, or does nothing.
            let backward = |lowered: &Lowered| {
                let mut order: Vec<String> = Vec::new();
                let mut products = BTreeMap::new();
                for (name, op) in shared(lowered, Phase::Backward) {
                    if is_product(op) && op.work.flops > 0 {
                        if order.last().is_none_or(|last| last != name) {
                            order.push(name.to_string());
                        }
                        let of = (name.to_string(), op.step.part);
                        products.insert(of, (op.work.flops, op.work.product));
                    }
                }
                (order, products)
            };
            assert_eq!(backward(&own), backward(&pytorch), "{}", info.name);
        }
    }
}

#[test]
fn what_differs_is_what_the_conventions_say() {
    let options = NetworkOptions { batch: 2, ..Default::default() };
    let described = network("resnet18", &options).unwrap();
    let count = |conventions: &Conventions, part: Part| {
        let lowered = described.lower(conventions);
        lowered.tape.ops().iter().filter(|op| op.step.part == part).count()
    };
    let (pytorch, own) = (Conventions::PYTORCH, Conventions::TIDEGATE);
    // Twenty normalisations, eight blocks whose input has two readers; 62 parameters of 41 layers.
    assert_eq!([count(&pytorch, Part::Running), count(&own, Part::Running)], [0, 20]);
    assert_eq!([count(&pytorch, Part::Sum), count(&own, Part::Sum)], [0, 8]);
    assert_eq!([count(&pytorch, Part::Update), count(&own, Part::Update)], [41, 62]);
    // One flag at a time changes what it says and nothing else.
    let fused = Conventions { fused_sums: true, ..own };
    assert_eq!(count(&fused, Part::Sum), 0);
    assert_eq!(count(&fused, Part::Running), 20);
    let bare = Conventions { statistics: false, ..own };
    assert_eq!(count(&bare, Part::Running), 0);
    assert_eq!(count(&bare, Part::Sum), 8);
    // Caffe's max pooling keeps where its maxima are, in 32 bits each, and not its input.
    let caffe = described.lower(&Conventions::CAFFE);
    let ops = caffe.tape.ops();
    let pooling = ops.iter().find(|op| op.name == "maxpool").expect("it has one");
    let [pooled, positions] = pooling.writes[..] else { panic!("{:?}", pooling.writes) };
    let bytes = |tensor: TensorId| caffe.tape.tensors()[tensor.index()].bytes();
    assert_eq!(bytes(positions), bytes(pooled));
    let backward = ops.iter().find(|op| op.name == "maxpool_ip_grad").expect("and its backward");
    assert!(backward.reads.contains(&positions) && !backward.reads.contains(&pooling.reads[0]));
}
