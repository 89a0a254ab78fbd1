//! The nodes of an execution trace, in the spellings of its schemas 1.0 and 1.1.

use networks::{Call, Operand};
use serde::Deserialize;
use serde_json::Value;

use crate::import::json::{Scalar, element_bytes};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct TensorRef {
    pub storage: u64,
    /// Where in the storage it ends, in bytes.
    pub end: u64,
    pub on_device: bool,
}

/// What ran, in the order in which it began.
#[derive(Debug)]
pub(in crate::import) struct Node {
    pub id: u64,
    pub parent: u64,
    pub name: String,
    /// The number that a profile knows it by.
    pub function: Option<u64>,
    pub thread: i64,
    pub schema: String,
    pub inputs: Vec<TensorRef>,
    pub outputs: Vec<TensorRef>,
    /// The same with shapes.
    pub call: Call,
}

#[derive(Deserialize)]
struct RawFile {
    nodes: Vec<RawNode>,
    #[serde(default)]
    schema: Scalar,
}

#[derive(Deserialize)]
struct RawNode {
    #[serde(default)]
    name: Scalar,
    id: Scalar,
    #[serde(default, alias = "ctrl_deps")]
    parent: Scalar,
    #[serde(default)]
    rf_id: Scalar,
    #[serde(default)]
    tid: Scalar,
    #[serde(default)]
    op_schema: Scalar,
    #[serde(default)]
    inputs: Value,
    #[serde(default)]
    outputs: Value,
    #[serde(default)]
    input_types: Value,
    #[serde(default)]
    output_types: Value,
    #[serde(default)]
    input_shapes: Value,
    #[serde(default)]
    output_shapes: Value,
    #[serde(default)]
    attrs: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    value: Scalar,
}

/// Nodes and schema; how many nodes name a tensor that cannot be taken.
pub(in crate::import) struct File {
    pub nodes: Vec<Node>,
    pub schema: String,
    pub malformed: u64,
    /// Whether no tensor is on a device, so that those of the host are taken as if they were.
    pub of_host: bool,
}

impl File {
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let raw: RawFile = serde_json::from_slice(bytes)?;
        let mut malformed = 0;
        let mut nodes: Vec<Node> = Vec::with_capacity(raw.nodes.len());
        for node in raw.nodes {
            match Node::of(&node) {
                Some(node) => nodes.push(node),
                None => malformed += 1,
            }
        }
        // Files list nodes as they end.
        nodes.sort_by_key(|node| (node.function.is_none(), node.function, node.id));
        let mut tensors: Vec<&mut TensorRef> = nodes
            .iter_mut()
            .flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs))
            .collect();
        let of_host = !tensors.iter().any(|tensor| tensor.on_device);
        tensors.iter_mut().for_each(|tensor| tensor.on_device |= of_host);
        Ok(Self { nodes, schema: raw.schema.text().to_string(), malformed, of_host })
    }
}

impl Node {
    fn of(raw: &RawNode) -> Option<Self> {
        let attribute = |name: &str| {
            let found = raw.attrs.iter().find(|attribute| attribute.name.text() == name);
            found.map(|attribute| &attribute.value)
        };
        let field = |name: &str, own: &Scalar| match own {
            Scalar::Other(_) => attribute(name).cloned().unwrap_or_default(),
            own => own.clone(),
        };
        let tensors = |value: &Value, types: &Value| {
            let (values, types) = match value {
                Value::Object(object) => (object.get("values"), object.get("types")),
                list => (Some(list), Some(types)),
            };
            let mut found = Vec::new();
            let none = Vec::new();
            let list = |value: Option<&'_ Value>| value.and_then(Value::as_array).cloned();
            let types = list(types).unwrap_or_default();
            for (index, value) in list(values).unwrap_or(none).iter().enumerate() {
                let kind = types.get(index).and_then(Value::as_str).unwrap_or("");
                if kind.contains("Tensor") {
                    collect(value, 0, &mut found)?;
                }
            }
            Some(found)
        };
        Some(Self {
            id: raw.id.natural()?,
            parent: raw.parent.natural().unwrap_or(0),
            name: raw.name.text().to_string(),
            function: field("rf_id", &raw.rf_id).natural(),
            thread: field("tid", &raw.tid).whole().unwrap_or(0),
            schema: field("op_schema", &raw.op_schema).text().to_string(),
            inputs: tensors(&raw.inputs, &raw.input_types)?,
            outputs: tensors(&raw.outputs, &raw.output_types)?,
            call: Call {
                name: raw.name.text().to_string(),
                inputs: operands(&raw.inputs, &raw.input_shapes, &raw.input_types),
                outputs: operands(&raw.outputs, &raw.output_shapes, &raw.output_types),
                tf32: false,
            },
        })
    }
}

/// Arguments or results with their shapes.
fn operands(value: &Value, shapes: &Value, types: &Value) -> Vec<Operand> {
    let (values, shapes, types) = match value {
        Value::Object(of) => (of.get("values"), of.get("shapes"), of.get("types")),
        list => (Some(list), Some(shapes), Some(types)),
    };
    let [values, shapes, types] = [values, shapes, types]
        .map(|list| list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice));
    let extents = |shape: &Value| -> Vec<u64> {
        let list = shape.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(Value::as_u64).collect()
    };
    let operand = |(index, kind): (usize, &Value)| {
        let kind = kind.as_str().unwrap_or("");
        let shape = shapes.get(index).unwrap_or(&Value::Null);
        let inner = kind.rsplit("Tensor(").next().unwrap_or("").trim_end_matches([')', ']']);
        let width = element_bytes(inner).unwrap_or(0);
        match kind {
            _ if kind.starts_with("Tensor(") => Operand::tensor(&extents(shape), width),
            _ if kind.starts_with("GenericList[Tensor(") => {
                let list = shape.as_array().map_or(&[][..], Vec::as_slice);
                Operand::list(list.iter().map(extents), width)
            }
            _ => {
                let truth = values.get(index).and_then(Value::as_bool).unwrap_or(false);
                Operand { truth, ..Operand::default() }
            }
        }
    };
    types.iter().enumerate().map(operand).collect()
}

/// Tensors in a value: `[tensor, storage, offset, elements, bytes of each, device]`, or lists of such.
fn collect(value: &Value, depth: u32, found: &mut Vec<TensorRef>) -> Option<()> {
    let Value::Array(list) = value else { return Some(()) };
    if list.first().is_some_and(Value::is_array) {
        return match depth {
            0..4 => list.iter().try_for_each(|inner| collect(inner, depth + 1, found)),
            _ => None,
        };
    }
    if list.len() < 5 || !list[..5].iter().all(Value::is_number) {
        return Some(());
    }
    let number = |index: usize| list[index].as_u64();
    let (offset, elements, each) = (number(2)?, number(3)?, number(4)?);
    let end = offset.checked_add(elements)?.checked_mul(each).filter(|end| *end < 1 << 60)?;
    let device = list.get(5).and_then(Value::as_str).unwrap_or("cuda");
    // What is not there has storage 0.
    if elements > 0 && number(1)? > 0 {
        found.push(TensorRef {
            storage: number(1)?,
            end,
            on_device: !device.starts_with("cpu") && device != "meta",
        });
    }
    Some(())
}
