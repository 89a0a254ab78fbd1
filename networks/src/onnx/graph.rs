//! The walk over the nodes: functions inlined, constants folded, one value a name.

use std::collections::{HashMap, HashSet};

use super::node::Node;
use super::proto::{self, Function, ValueInfo};
use super::value::{Constant, Value};
use super::{Import, fold, patterns};
use crate::error::NetworkError;

/// More nodes than any model has.
const MANY: usize = 1 << 17;

/// The nodes with the model's own functions in the place of their calls.
pub(super) fn inlined(
    nodes: &[proto::Node],
    functions: &[Function],
) -> Result<Vec<proto::Node>, String> {
    let known: HashMap<(&str, &str), &Function> =
        functions.iter().map(|of| ((of.domain.as_str(), of.name.as_str()), of)).collect();
    let mut all = nodes.to_vec();
    // A function may call others, but none itself.
    for _ in 0..16 {
        let called =
            |node: &proto::Node| known.get(&(node.domain.as_str(), node.op_type.as_str())).copied();
        if !all.iter().any(|node| called(node).is_some()) {
            return Ok(all);
        }
        let mut next = Vec::with_capacity(all.len());
        for (number, node) in all.iter().enumerate() {
            match called(node) {
                Some(function) => next.extend(call(node, function, number)),
                None => next.push(node.clone()),
            }
            if next.len() > MANY {
                break;
            }
        }
        all = next;
        if all.len() > MANY {
            break;
        }
    }
    Err("its functions call each other without end: export it without functions".to_string())
}

/// The nodes of a function, with the caller's names and attributes.
fn call(caller: &proto::Node, of: &Function, number: usize) -> Vec<proto::Node> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    names.extend(of.input.iter().map(String::as_str).zip(caller.input.iter().map(String::as_str)));
    names
        .extend(of.output.iter().map(String::as_str).zip(caller.output.iter().map(String::as_str)));
    let rename = |name: &String| match names.get(name.as_str()) {
        Some(outer) => (*outer).to_string(),
        None if name.is_empty() || of.input.contains(name) => String::new(),
        None => format!("{}/{number}/{name}", caller.output.first().map_or("", String::as_str)),
    };
    let mut nodes = of.node.clone();
    for node in &mut nodes {
        node.input = node.input.iter().map(rename).collect();
        node.output = node.output.iter().map(rename).collect();
        for attribute in node.attribute.iter_mut().filter(|one| !one.of_caller.is_empty()) {
            let wanted = std::mem::take(&mut attribute.of_caller);
            let mut given = caller.attribute.iter().chain(&of.defaults);
            if let Some(given) = given.find(|one| one.name == wanted) {
                *attribute = proto::Attribute { name: attribute.name.clone(), ..given.clone() };
            }
        }
    }
    nodes
}

/// Initializers that are a table's elements turned, by name: exporters that fold constants write a table
/// that the last layer shares twice.
pub(super) fn turned_tables(graph: &proto::Graph) -> HashMap<&str, &str> {
    let by_name: HashMap<&str, &proto::Tensor> =
        graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let looked_up = graph.node.iter().filter(|node| node.op_type == "Gather");
    let tables: HashSet<&str> =
        looked_up.filter_map(|node| node.input.first()).map(String::as_str).collect();
    let mut found = HashMap::new();
    for table in tables.iter().filter_map(|name| by_name.get(name)) {
        for other in &graph.initializer {
            if is_turned(table, other) {
                found.insert(other.name.as_str(), table.name.as_str());
            }
        }
    }
    found
}

fn is_turned(table: &proto::Tensor, other: &proto::Tensor) -> bool {
    let ([rows, width], [depth, columns]) = (table.dims.as_slice(), other.dims.as_slice()) else {
        return false;
    };
    let (Some(left), Some(right)) = (&table.raw_data, &other.raw_data) else { return false };
    let (Ok(rows), Ok(width)) = (usize::try_from(*rows), usize::try_from(*width)) else {
        return false;
    };
    let alike = (depth, columns) == (&table.dims[1], &table.dims[0])
        && table.data_type == other.data_type
        && left.len() == right.len();
    let Some(cell) = rows.checked_mul(width).and_then(|cells| left.len().checked_div(cells)) else {
        return false;
    };
    alike
        && cell > 0
        && cell * rows * width == left.len()
        && (0..rows).all(|row| {
            (0..width).all(|column| {
                let at = |index: usize| index * cell..(index + 1) * cell;
                left[at(row * width + column)] == right[at(column * rows + row)]
            })
        })
}

/// The outputs that losses are of: the first, and others that nothing reads, which caches are not.
pub(super) fn losses(nodes: &[proto::Node], outputs: &[ValueInfo]) -> Vec<String> {
    let read: HashSet<&String> = nodes.iter().flat_map(|node| &node.input).collect();
    let made: HashSet<&String> = nodes.iter().flat_map(|node| &node.output).collect();
    let all = outputs.iter().enumerate();
    let kept = all.filter(|(index, output)| {
        *index == 0 || (!read.contains(&output.name) && made.contains(&output.name))
    });
    kept.map(|(_, output)| output.name.clone()).collect()
}

impl Import<'_> {
    /// Imports the nodes that the outputs need.
    pub(super) fn walk(
        &mut self,
        nodes: &[proto::Node],
        outputs: &[String],
    ) -> Result<(), NetworkError> {
        let mut constants: HashSet<String> = HashSet::new();
        let mut parameters: HashSet<String> = HashSet::new();
        for (name, value) in &self.values {
            if let Value::Constant(constant) = value {
                constants.insert(name.clone());
                if constant.is_trained() {
                    parameters.insert(name.clone());
                }
            }
        }
        for node in nodes {
            let known = |name: &String| name.is_empty() || constants.contains(name);
            let random = node.op_type.starts_with("Random");
            let shape = matches!(node.op_type.as_str(), "Shape" | "Size");
            if !random && (shape || node.input.iter().all(known)) {
                constants.extend(node.output.iter().cloned());
            }
        }
        let fuses = self.options.fused_attention;
        let nodes = patterns::found(nodes, outputs, &constants, &parameters, fuses);
        for of in &nodes {
            let node = Node { of, file: self.file, opset: self.opset };
            let made = match self.folded(node) {
                Some(constants) => constants.into_iter().map(Value::Constant).collect(),
                None => self.operator(node)?,
            };
            for (name, value) in of.output.iter().zip(made) {
                if !name.is_empty() {
                    self.values.insert(name.clone(), value);
                }
            }
        }
        Ok(())
    }

    /// What a node makes where all that it takes is known.
    fn folded(&self, node: Node<'_>) -> Option<Vec<Constant>> {
        if matches!(node.kind(), "Shape" | "Size") {
            let shape = self.shape(self.values.get(node.of.input.first()?)?)?;
            let range = |name, otherwise: i64| {
                let rank = shape.len() as i64;
                let at = node.integer(name, otherwise);
                (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize
            };
            let (start, end) = (range("start", 0), range("end", i64::MAX));
            return Some(vec![match node.kind() {
                "Size" => {
                    Constant { dims: vec![], ..Constant::list([crate::layer::elements(&shape)]) }
                }
                _ => Constant::list(shape[start..end.max(start)].iter().copied()),
            }]);
        }
        let mut inputs = Vec::with_capacity(node.of.input.len());
        for name in &node.of.input {
            inputs.push(match self.values.get(name) {
                None if name.is_empty() => None,
                Some(Value::Constant(constant)) => Some(constant),
                _ => return None,
            });
        }
        fold::fold(&node, &inputs)
    }

    /// The shape of a value; a list has none.
    pub(super) fn shape(&self, value: &Value) -> Option<Vec<u64>> {
        match value {
            Value::Layer(tensor) => Some(tensor.shape.clone()),
            Value::Constant(constant) => Some(constant.dims.clone()),
            Value::List(_) => None,
        }
    }
}
