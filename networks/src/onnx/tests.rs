use std::path::Path;

use prost::Message;

use super::proto::{Attribute, Dimension, Graph, Model, Node, Shape, Tensor, TensorType, Type};
use super::*;
use crate::modelled_trace;

fn info(name: &str, dims: &[i64]) -> ValueInfo {
    let dimension = |value: &i64| match value {
        -1 => Dimension { value: None, param: Some("N".to_string()) },
        value => Dimension { value: Some(*value), param: None },
    };
    let shape = Some(Shape { dim: dims.iter().map(dimension).collect() });
    ValueInfo { name: name.to_string(), r#type: Some(Type { tensor: Some(TensorType { shape }) }) }
}

fn weights(name: &str, dims: &[i64]) -> Tensor {
    Tensor { dims: dims.to_vec(), data_type: Some(1), name: name.to_string(), ..Tensor::default() }
}

fn shape(name: &str, to: &[i64]) -> Tensor {
    let raw = to.iter().flat_map(|extent| extent.to_le_bytes()).collect();
    let (dims, name) = (vec![to.len() as i64], name.to_string());
    Tensor { dims, data_type: Some(INT64), name, raw_data: Some(raw), ..Tensor::default() }
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
    Node { input, output, name: String::new(), op_type: op_type.to_string(), attribute }
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
    }
}

fn encoded(graph: Graph) -> Vec<u8> {
    Model { ir_version: Some(8), graph: Some(graph) }.encode_to_vec()
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
        ("no graph", Model { ir_version: Some(8), graph: None }.encode_to_vec()),
        ("cut off", encoded(graph())[..200].to_vec()),
        ("unknown operator", with(&|g| g.node[2].op_type = "LSTM".to_string())),
        ("unknown input", with(&|g| g.node[2].input[0] = "y".to_string())),
        ("missing input", with(&|g| g.node[9].input.truncate(1))),
        ("no initializer", with(&|g| g.node[0].input[1] = "x".to_string())),
        ("channels", with(&|g| g.initializer[0].dims[1] = 4)),
        ("negative extent", with(&|g| g.initializer[0].dims[1] = -4)),
        ("features", with(&|g| g.node[9].attribute.clear())),
        ("uneven pads", with(&|g| g.node[0].attribute[1].ints[0] = 0)),
        ("negative pads", with(&|g| g.node[0].attribute[1].ints[0] = -1)),
        ("dilated", with(&|g| g.node[0].attribute.push(ints("dilations", &[2, 2])))),
        ("no window", with(&|g| g.node[6].attribute.clear())),
        ("reshape", with(&|g| g.initializer[7] = shape("to", &[3, 3]))),
        ("open input", with(&|g| g.input[0] = info("x", &[-1, 3, -1, -1]))),
        ("input without shape", with(&|g| g.input[0].r#type = None)),
        ("no output", with(&|g| g.output.clear())),
        ("shapes", with(&|g| g.node[4].input[1] = "x".to_string())),
    ];
    let report =
        broken.map(|(what, bytes)| format!("# {what}\n{}\n", read(&bytes).expect_err(what)));
    insta::assert_snapshot!(report.join("\n"));
}
