use std::path::Path;

use prost::Message;

use proptest::prelude::*;

use super::proto::{
    Attribute, Dimension, Entry, Function, Graph, Model, Node, Opset, Shape, Tensor, TensorType,
    Type,
};
use super::value::{Axis, Tensor as Laid, in_order};
use super::*;
use crate::{Conventions, modelled_trace};

fn info(name: &str, dims: &[i64]) -> ValueInfo {
    let dimension = |(index, value): (usize, &i64)| match value {
        -1 => Dimension { value: None, param: Some(format!("N{index}")) },
        value => Dimension { value: Some(*value), param: None },
    };
    let shape = Some(Shape { dim: dims.iter().enumerate().map(dimension).collect() });
    let tensor = Some(TensorType { element: Some(1), shape });
    ValueInfo { name: name.to_string(), r#type: Some(Type { tensor }) }
}

fn weights(name: &str, dims: &[i64]) -> Tensor {
    Tensor { dims: dims.to_vec(), data_type: Some(1), name: name.to_string(), ..Tensor::default() }
}

fn shape(name: &str, to: &[i64]) -> Tensor {
    let raw = to.iter().flat_map(|extent| extent.to_le_bytes()).collect();
    let (dims, name) = (vec![to.len() as i64], name.to_string());
    Tensor { dims, data_type: Some(7), name, raw_data: Some(raw), ..Tensor::default() }
}

fn ints(name: &str, ints: &[i64]) -> Attribute {
    Attribute { name: name.to_string(), ints: ints.to_vec(), ..Attribute::default() }
}

fn int(name: &str, i: i64) -> Attribute {
    Attribute { name: name.to_string(), i: Some(i), ..Attribute::default() }
}

/// `Conv: x w -> y`
fn node(text: &str, attribute: Vec<Attribute>) -> Node {
    let (op_type, rest) = text.split_once(": ").expect("an operator");
    let (input, output) = rest.split_once(" -> ").expect("outputs");
    let names = |text: &str| text.split(' ').map(str::to_string).collect();
    let (input, output) = (names(input), names(output));
    Node { input, output, op_type: op_type.to_string(), attribute, ..Node::default() }
}

/// A residual block with a classifier, as exporters write it.
fn graph() -> Graph {
    let three = || vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])];
    Graph {
        node: vec![
            node("Conv: x w1 b1 -> c1", three()),
            node("BatchNormalization: c1 s1 o1 m1 v1 -> n1", vec![]),
            node("Relu: n1 -> r1", vec![]),
            node("Conv: r1 w2 -> c2", three()),
            node("Add: c2 r1 -> a1", vec![]),
            node("LeakyRelu: a1 -> r2", vec![]),
            node(
                "MaxPool: r2 -> p1",
                vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
            ),
            node("GlobalAveragePool: p1 -> g", vec![]),
            node("Reshape: g to -> f", vec![]),
            node("Gemm: f w3 b3 -> h", vec![int("transB", 1)]),
            node("Sigmoid: h -> gate", vec![]),
            node("Mul: h gate -> silu", vec![]),
            node("Dropout: silu -> d", vec![]),
            node("MatMul: d w4 -> l", vec![]),
            node("Add: l b4 -> logits", vec![]),
        ],
        initializer: vec![
            weights("w1", &[8, 3, 3, 3]),
            weights("b1", &[8]),
            weights("s1", &[8]),
            weights("o1", &[8]),
            weights("m1", &[8]),
            weights("v1", &[8]),
            weights("w2", &[8, 8, 3, 3]),
            shape("to", &[1, -1]),
            weights("w3", &[16, 8]),
            weights("b3", &[16]),
            weights("w4", &[16, 10]),
            weights("b4", &[10]),
        ],
        input: vec![info("x", &[1, 3, 16, 16])],
        output: vec![info("logits", &[1, 10])],
        ..Graph::default()
    }
}

fn encoded(graph: Graph) -> Vec<u8> {
    let opset = vec![Opset { domain: String::new(), version: 18 }];
    Model { ir_version: Some(8), graph: Some(graph), opset, functions: vec![] }.encode_to_vec()
}

fn read(bytes: &[u8]) -> Result<Network, NetworkError> {
    let options = NetworkOptions { batch: 4, ..NetworkOptions::default() };
    network_from_onnx(bytes, Path::new("exported.onnx"), &options)
}

#[test]
fn a_model_becomes_a_network_with_its_backward() {
    let network = read(&encoded(graph())).expect("well formed");
    assert_eq!(network.name(), "exported");
    let expected = (8 * 27 + 8) + 16 + 8 * 72 + (16 * 8 + 16) + 160 + 10;
    assert_eq!(network.parameter_count(), expected);
    let machine = crate::test_machine::machine();
    let trace = modelled_trace(&network, &machine).expect("well formed");
    let listing: Vec<String> = (trace.ops.iter())
        .map(|op| {
            let names = |list: &[schema::TensorId]| {
                let tensor = |id: &schema::TensorId| trace.tensors[id.index()].name.clone();
                list.iter().map(tensor).collect::<Vec<_>>().join(" ")
            };
            format!("{}: {} -> {}", op.name, names(&op.reads), names(&op.writes))
        })
        .collect();
    insta::assert_snapshot!(listing.join("\n"));
}

#[test]
fn broken_models_are_refused_with_node_and_remedy() {
    let with = |change: &dyn Fn(&mut Graph)| {
        let mut changed = graph();
        change(&mut changed);
        encoded(changed)
    };
    let broken = [
        ("not protobuf", b"not a model".to_vec()),
        ("no graph", Model { ir_version: Some(8), ..Model::default() }.encode_to_vec()),
        ("cut off", encoded(graph())[..200].to_vec()),
        ("unknown operator", with(&|g| g.node[2].op_type = "LSTM".to_string())),
        ("unknown input", with(&|g| g.node[2].input[0] = "y".to_string())),
        ("missing input", with(&|g| g.node[9].input.truncate(1))),
        ("no initializer", with(&|g| g.node[0].input[1] = "x".to_string())),
        ("channels", with(&|g| g.initializer[0].dims[1] = 4)),
        ("negative extent", with(&|g| g.initializer[0].dims[1] = -4)),
        ("features", with(&|g| g.node[9].attribute.clear())),
        ("negative pads", with(&|g| g.node[0].attribute[1].ints[0] = -1)),
        ("no window", with(&|g| g.node[6].attribute.clear())),
        ("reshape", with(&|g| g.initializer[7] = shape("to", &[3, 3]))),
        ("open input", with(&|g| g.input[0] = info("x", &[-1, 3, -1, -1]))),
        ("input without shape", with(&|g| g.input[0].r#type = None)),
        ("no output", with(&|g| g.output.clear())),
        ("a shape from data", with(&|g| g.node[8].input[1] = "g".to_string())),
        (
            "an op on no element",
            with(&|g| {
                g.node[2].op_type = "Mystery".to_string();
                g.value_info.push(info("r1", &[1, 8, 3, 3]));
            }),
        ),
        ("axis", with(&|g| g.node[8] = node("Squeeze: g to -> f", vec![]))),
        ("repeats", with(&|g| g.node[8] = node("Expand: g to -> f", vec![]))),
        ("parts", with(&|g| g.node[8] = node("Split: g to -> f", vec![]))),
        ("shapes", with(&|g| g.node[4].input[1] = "x".to_string())),
    ];
    let report =
        broken.map(|(what, bytes)| format!("# {what}\n{}\n", read(&bytes).expect_err(what)));
    insta::assert_snapshot!(report.join("\n"));
}

/// A network of a few nodes from `x` to `y`.
fn small(nodes: Vec<Node>, initializer: Vec<Tensor>, x: &[i64]) -> Graph {
    let (input, output) = (vec![info("x", x)], vec![info("y", &[])]);
    Graph { node: nodes, initializer, input, output, ..Graph::default() }
}

fn floats(name: &str, floats: &[f32]) -> Tensor {
    let raw = floats.iter().flat_map(|figure| figure.to_le_bytes()).collect();
    let dims = if floats.len() == 1 { vec![] } else { vec![floats.len() as i64] };
    let name = name.to_string();
    Tensor { dims, data_type: Some(1), name, raw_data: Some(raw), ..Tensor::default() }
}

/// What each layer is called, computes and makes.
fn listing(network: &Network) -> String {
    let name = |id: &LayerId| network.graph()[id.index()].name.as_str();
    let lines = network.graph().iter().map(|layer| {
        let kind = format!("{:?}", layer.compute);
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_string();
        let from: Vec<&str> = layer.inputs.iter().map(name).collect();
        format!("{}: {kind} of {} {:?}", layer.name, from.join(" "), layer.shape)
    });
    let notes = network.notes().iter().map(|note| format!("note: {note}"));
    lines.chain(notes).collect::<Vec<_>>().join("\n")
}

#[test]
fn shapes_are_worked_out_and_the_batch_is_anywhere() {
    let nodes = || {
        vec![
            node("Conv: x w -> c", vec![]),
            // As exporters write `x.reshape(x.shape[0], x.shape[1], -1)`.
            node("Shape: c -> s", vec![]),
            node("Gather: s zero -> b", vec![]),
            node("Unsqueeze: b axes -> b1", vec![]),
            node("Concat: b1 channels rest -> to", vec![int("axis", 0)]),
            node("Reshape: c to -> r", vec![]),
            node("Transpose: r -> t", vec![ints("perm", &[2, 0, 1])]),
            node("Relu: t -> u", vec![]),
            node("ReduceMean: u axes -> y", vec![int("keepdims", 0)]),
        ]
    };
    let constants = || {
        vec![
            weights("w", &[8, 3, 3, 3]),
            Tensor { dims: vec![], ..shape("zero", &[0]) },
            shape("axes", &[0]),
            shape("channels", &[8]),
            shape("rest", &[-1]),
        ]
    };
    let fixed = read(&encoded(small(nodes(), constants(), &[2, 3, 6, 6]))).expect("well formed");
    let open = read(&encoded(small(nodes(), constants(), &[-1, 3, 6, 6]))).expect("well formed");
    assert_eq!(listing(&fixed), listing(&open), "exported for 2 or for any, it is of 4");
    insta::assert_snapshot!(listing(&open));
}

/// As torchvision's attention does: positions come first, and are one dimension with the batch.
#[test]
fn a_fixed_batch_behind_positions_grows() {
    let nodes = || {
        vec![
            node("Transpose: x -> t", vec![ints("perm", &[1, 0, 2])]),
            node("Relu: t -> u", vec![]),
            node("Reshape: u rows -> r", vec![]),
            node("MatMul: r w -> m", vec![]),
            node("Reshape: m apart -> a", vec![]),
            node("Transpose: a -> y", vec![ints("perm", &[1, 0, 2])]),
        ]
    };
    let constants = |batch: i64| {
        let apart = shape("apart", &[5, batch, 8]);
        vec![weights("w", &[8, 8]), shape("rows", &[5 * batch, 8]), apart]
    };
    let made = |batch: i64| {
        let network = read(&encoded(small(nodes(), constants(batch), &[batch, 5, 8])));
        listing(&network.expect("well formed"))
    };
    insta::assert_snapshot!(made(2));
    for batch in [1, 3, 4, 5, 8] {
        assert_eq!(made(batch), made(2), "exported for {batch}, it is of 4");
    }
}

#[test]
fn a_dropout_of_nothing_hands_back_its_input() {
    let network = |ratio: f32| {
        let nodes = vec![node("Relu: x -> u", vec![]), node("Dropout: u ratio -> y", vec![])];
        let ratio = Tensor { dims: vec![], ..floats("ratio", &[ratio]) };
        read(&encoded(small(nodes, vec![ratio], &[4, 8]))).expect("well formed")
    };
    let kinds = |ratio| {
        let network = network(ratio);
        network.graph().iter().map(|layer| layer.compute.clone()).collect::<Vec<_>>()
    };
    let relu = Compute::Activation(schema::Activation::Relu);
    assert_eq!(kinds(0.0), [Compute::Input, relu.clone(), Compute::Loss]);
    let percent = Compute::Dropout { percent: 10 };
    assert_eq!(kinds(0.1), [Compute::Input, relu, percent, Compute::Loss]);
}

#[test]
fn what_is_written_out_is_found() {
    let attention = [
        "MatMul: n wq -> q0",
        "Reshape: q0 heads -> q1",
        "Transpose: q1 -> q2",
        "MatMul: n wk -> k0",
        "Reshape: k0 heads -> k1",
        "Transpose: k1 -> k2",
        "MatMul: n wv -> v0",
        "Reshape: v0 heads -> v1",
        "Transpose: v1 -> v2",
        "Mul: q2 half -> q",
        "Transpose: k2 -> k3",
        "MatMul: q k3 -> s0",
        "Add: s0 mask -> s1",
        "Softmax: s1 -> s2",
        "MatMul: s2 v2 -> m0",
        "Transpose: m0 -> m1",
        "Reshape: m1 flat -> m",
    ];
    let norm = [
        "ReduceMean: x last -> mean",
        "Sub: x mean -> d",
        "Pow: d two -> d2",
        "ReduceMean: d2 last -> var",
        "Add: var half -> v",
        "Sqrt: v -> root",
        "Div: d root -> n0",
        "Mul: n0 scale -> n1",
        "Add: n1 shift -> n",
    ];
    let rest = [
        "MatMul: m up -> h0",
        "Add: hb h0 -> h",
        "Div: h two -> g0",
        "Erf: g0 -> g1",
        "Add: g1 half -> g2",
        "Mul: h g2 -> g3",
        "Mul: g3 half -> g",
        "Sigmoid: g -> z",
        "Mul: g z -> y",
    ];
    let all = norm.iter().chain(&attention).chain(&rest);
    let mut nodes: Vec<Node> = all.map(|text| node(text, vec![])).collect();
    for turned in nodes.iter_mut().filter(|node| node.op_type == "Transpose") {
        let order = if turned.output[0] == "k3" { [0, 1, 3, 2] } else { [0, 2, 1, 3] };
        turned.attribute = vec![ints("perm", &order)];
    }
    let square = |name| weights(name, &[8, 8]);
    let constants = vec![
        shape("last", &[-1]),
        floats("two", &[2.0]),
        floats("half", &[0.5]),
        weights("scale", &[8]),
        weights("shift", &[8]),
        square("wq"),
        square("wk"),
        square("wv"),
        shape("heads", &[0, 0, 2, 4]),
        shape("flat", &[0, 0, 8]),
        weights("mask", &[5, 5]),
        weights("up", &[8, 12]),
        weights("hb", &[12]),
    ];
    let bytes = encoded(small(nodes, constants, &[1, 5, 8]));
    insta::assert_snapshot!(listing(&read(&bytes).expect("well formed")));
    let unfused = NetworkOptions { batch: 4, fused_attention: false, ..NetworkOptions::default() };
    let network = network_from_onnx(&bytes, Path::new("exported.onnx"), &unfused);
    insta::assert_snapshot!(listing(&network.expect("well formed")));
}

#[test]
fn folded_batch_norms_are_said_or_put_back() {
    let mut conv = node("Conv: x w b -> c", vec![]);
    let value = "FuseBatchNormIntoConv".to_string();
    conv.metadata = vec![Entry { key: "rule".to_string(), value }];
    let nodes =
        vec![conv, node("Conv: c onnx::Conv_7 b -> d", vec![]), node("Conv: d v b -> y", vec![])];
    let of = |name| weights(name, &[8, 8, 1, 1]);
    let constants = vec![of("w"), weights("b", &[8]), of("onnx::Conv_7"), of("v")];
    let bytes = encoded(small(nodes, constants, &[1, 8, 6, 6]));
    insta::assert_snapshot!(listing(&read(&bytes).expect("well formed")));
    let options =
        NetworkOptions { batch: 4, training_batch_norm: true, ..NetworkOptions::default() };
    let network = network_from_onnx(&bytes, Path::new("exported.onnx"), &options);
    insta::assert_snapshot!(listing(&network.expect("well formed")));
}

#[test]
fn functions_are_inlined_unknown_ops_taken_for_elementwise_and_initializers_shared() {
    let alpha = Attribute { of_caller: "slope".to_string(), ..int("axis", 0) };
    let function = Function {
        name: "Block".to_string(),
        domain: "own".to_string(),
        input: vec!["a".to_string(), "w".to_string()],
        output: vec!["c".to_string()],
        node: vec![node("MatMul: a w -> b", vec![]), node("Softmax: b -> c", vec![alpha])],
        defaults: vec![],
    };
    let call = |text| Node { domain: "own".to_string(), ..node(text, vec![int("slope", 1)]) };
    let nodes =
        vec![call("Block: x w -> h"), call("Block: h w -> i"), node("Mystery: i -> y", vec![])];
    let mut graph = small(nodes, vec![weights("w", &[8, 8])], &[1, 8]);
    graph.output = vec![info("y", &[1, 8])];
    let opset = vec![Opset { domain: String::new(), version: 18 }];
    let mut model =
        Model { ir_version: Some(8), graph: Some(graph), opset, functions: vec![function] };
    let network = read(&model.encode_to_vec()).expect("well formed");
    insta::assert_snapshot!(listing(&network));
    assert_eq!(network.parameter_count(), 64, "both products have the same weights");
    // A function that calls itself.
    model.functions[0].node[0] = call("Block: a w -> b");
    let error = read(&model.encode_to_vec()).expect_err("endless");
    insta::assert_snapshot!(error);
}

#[test]
fn parts_are_views_and_what_nobody_trains_has_no_gradient() {
    let nodes = vec![
        node("Gather: table x -> e", vec![]),
        node("Split: e -> a b", vec![int("axis", 2)]),
        node("Equal: x zero -> is", vec![]),
        node("Unsqueeze: is last -> is1", vec![]),
        node("Where: is1 a b -> w", vec![]),
        node("Slice: w one two second -> part", vec![]),
        // What is left of it is nothing, as behind a rotation of whole heads.
        node("Slice: part one two second -> nothing", vec![]),
        node("Concat: part nothing -> y", vec![int("axis", 1)]),
    ];
    let constants = vec![
        weights("table", &[10, 8]),
        Tensor { dims: vec![], ..shape("zero", &[0]) },
        shape("last", &[-1]),
        shape("one", &[1]),
        shape("two", &[2]),
        shape("second", &[1]),
    ];
    let network = read(&encoded(small(nodes, constants, &[1, 4]))).expect("well formed");
    let lowered = network.lower(&Conventions::PYTORCH);
    let ops = lowered.tape.ops().iter().map(|op| {
        let names = |ids: &[schema::TensorId]| {
            let name = |id: &schema::TensorId| lowered.tape.tensor(*id).name.clone();
            ids.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        format!("{}: {} -> {}", op.name, names(&op.reads), names(&op.writes))
    });
    insta::assert_snapshot!(ops.collect::<Vec<_>>().join("\n"));
}

/// The places in memory of all elements, in their order.
fn places(of: &Laid) -> Vec<u64> {
    let count: u64 = of.shape.iter().product();
    let own = in_order(&of.shape);
    let place = |index: u64| {
        let of = of.shape.iter().zip(of.strides.iter().zip(&own));
        of.map(|(extent, (stride, own))| index / own % extent * stride).sum()
    };
    (0..count).map(place).collect()
}

proptest! {
    /// A view has the same elements in the same order; where there is none, they did not lie in order.
    #[test]
    fn views_keep_elements_in_their_order(
        shape in prop::collection::vec(1_u64..4, 1..5),
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        cuts in prop::collection::vec(any::<bool>(), 4),
        repeated in prop::collection::vec(any::<bool>(), 4),
    ) {
        let laid = turned(&shape, &order, None, &repeated);
        let to = merged(&laid.shape, &cuts);
        match laid.strides_in(&to) {
            Some(strides) => {
                let view = Laid { shape: to, strides, ..laid.clone() };
                prop_assert_eq!(places(&view), places(&laid));
            }
            None => prop_assert!(!laid.lies_in_order()),
        }
        let same = laid.strides_in(&laid.shape);
        let same = same.map(|strides| places(&Laid { strides, ..laid.clone() }));
        prop_assert_eq!(same, Some(places(&laid)));
    }

    /// What is a view of a batch of one is one of any batch, which keeps a dimension of its own.
    #[test]
    fn a_batch_of_one_is_one_of_many(
        rest in prop::collection::vec(2_u64..4, 1..4),
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        cuts in prop::collection::vec(any::<bool>(), 4),
    ) {
        let viewed = |batch: u64| {
            let shape: Vec<u64> = [batch].into_iter().chain(rest.iter().copied()).collect();
            let laid = turned(&shape, &order, Some(0), &[false; 4]);
            let batch = laid.axis.map_or(0, |axis| axis.dimension);
            let mut cuts = cuts.clone();
            cuts[batch] = true;
            cuts[(batch + 1).min(3)] = true;
            let is_view = laid.strides_in(&merged(&laid.shape, &cuts)).is_some();
            (is_view, laid.lies_in_order(), laid.is_dense())
        };
        prop_assert_eq!(viewed(1), viewed(5));
    }

    /// A batch is found again where it was merged with what lies outside and inside of it.
    #[test]
    fn a_batch_keeps_its_place_in_a_merged_dimension(
        rest in prop::collection::vec(2_u64..6, 3),
        place in 0_usize..4,
        cuts in prop::collection::vec(any::<bool>(), 4),
        batch in prop::sample::select(vec![7_u64, 11]),
    ) {
        let mut shape = rest;
        shape.insert(place, batch);
        let merged = merged(&shape, &cuts);
        let within = Axis::first_of(place).follow(&shape, batch, &merged).expect("it is there");
        let outside = merged[..within.dimension].iter().product::<u64>() * within.outside;
        prop_assert_eq!(outside, shape[..place].iter().product::<u64>());
        let apart = within.follow(&merged, batch, &shape).expect("it is there");
        prop_assert_eq!((apart.dimension, apart.outside), (place, 1));
    }
}

/// A tensor of this shape, with its dimensions in another order and some repeated.
fn turned(shape: &[u64], order: &[usize], batch: Option<usize>, repeated: &[bool]) -> Laid {
    let order: Vec<usize> = order.iter().copied().filter(|axis| *axis < shape.len()).collect();
    let strides = in_order(shape);
    Laid {
        id: LayerId(0),
        shape: order.iter().map(|axis| shape[*axis]).collect(),
        strides: order.iter().map(|i| if repeated[*i] { 0 } else { strides[*i] }).collect(),
        axis: order.iter().position(|axis| Some(*axis) == batch).map(Axis::first_of),
    }
}

/// Some neighbours become one dimension.
fn merged(shape: &[u64], cuts: &[bool]) -> Vec<u64> {
    let mut to: Vec<u64> = Vec::new();
    for (extent, cut) in shape.iter().zip(cuts) {
        match to.last_mut() {
            Some(last) if !cut => *last *= extent,
            _ => to.push(*extent),
        }
    }
    to
}
