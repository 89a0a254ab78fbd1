//! A small ONNX model, written by hand: fields by number, as in `onnx.proto`.

use crate::mutate::protobuf::varint;

fn number(field: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3, &mut bytes);
    varint(number, &mut bytes);
    bytes
}

fn piece(field: u64, of: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3 | 2, &mut bytes);
    varint(of.len() as u64, &mut bytes);
    bytes.extend_from_slice(of);
    bytes
}

fn ints(name: &str, ints: &[u64]) -> Vec<u8> {
    let ints = ints.iter().flat_map(|int| number(8, *int));
    piece(5, &[piece(1, name.as_bytes()), ints.collect()].concat())
}

fn node(text: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let (kind, rest) = text.split_once(": ").expect("an operator");
    let (inputs, output) = rest.split_once(" -> ").expect("an output");
    let inputs = inputs.split(' ').flat_map(|input| piece(1, input.as_bytes()));
    let named =
        [piece(2, output.as_bytes()), piece(3, output.as_bytes()), piece(4, kind.as_bytes())];
    piece(1, &[inputs.collect(), named.concat(), attributes.concat()].concat())
}

fn constant(name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|extent| number(1, *extent)).collect();
    piece(5, &[dims, number(2, 1), piece(8, name.as_bytes())].concat())
}

/// What a reshape makes: integers.
fn shape(name: &str, extents: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = extents.iter().flat_map(|extent| extent.to_le_bytes()).collect();
    let dims = number(1, extents.len() as u64);
    piece(5, &[dims, number(2, 7), piece(8, name.as_bytes()), piece(9, &raw)].concat())
}

fn info(field: u64, name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|extent| piece(1, &number(1, *extent))).collect();
    let kind = piece(1, &piece(2, &dims));
    piece(field, &[piece(1, name.as_bytes()), piece(2, &kind)].concat())
}

/// Convolutions, a sum, pooling and a classifier.
pub fn model() -> Vec<u8> {
    let window = [ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])];
    let halved = [ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let graph = [
        node("Conv: x w1 b1 -> c1", &window),
        node("BatchNormalization: c1 s s s s -> n1", &[]),
        node("Relu: n1 -> r1", &[]),
        node("Conv: r1 w2 -> c2", &window),
        node("Add: c2 r1 -> a1", &[]),
        node("MaxPool: a1 -> p1", &halved),
        node("Transpose: p1 -> t1", &[ints("perm", &[0, 2, 3, 1])]),
        node("Softmax: t1 -> q1", &[]),
        node("Reshape: q1 to -> f", &[]),
        node("Gemm: f w3 -> h", &[]),
        node("Sigmoid: h -> g", &[]),
        node("Mul: h g -> m", &[]),
        node("Concat: m h -> k", &[]),
        node("Dropout: k -> logits", &[]),
        constant("w1", &[4, 3, 3, 3]),
        constant("b1", &[4]),
        constant("s", &[4]),
        constant("w2", &[4, 4, 3, 3]),
        constant("w3", &[64, 5]),
        shape("to", &[1, -1]),
        info(11, "x", &[1, 3, 8, 8]),
        info(12, "logits", &[1, 10]),
    ];
    [number(1, 8), piece(7, &graph.concat())].concat()
}
