//! Execution traces: what each op did, without times.

use std::collections::HashMap;
use std::path::Path;

use super::ops::{Nested, Recorded, RecordedOp, dtype_of};
use crate::import::error::ImportError;
use crate::import::execution_trace::file::File;
use crate::import::execution_trace::{iterations, outermost};

pub(super) fn read(bytes: &[u8], path: &Path, tf32: bool) -> Result<Recorded, ImportError> {
    let file = File::read(bytes).map_err(ImportError::json(path))?;
    let iterations = iterations(&file.nodes);
    let (_, range) = iterations[(iterations.len() - 1) / 2].clone();
    let ops = outermost(&file.nodes, range);
    let mut of_node = HashMap::new();
    let mut nested = Nested { calls: Vec::new(), children: Vec::new() };
    let mut outer = Vec::new();
    for op in &ops {
        for node in &op.inner {
            let place = nested.calls.len();
            of_node.insert(node.id, place);
            nested.calls.push(networks::Call { tf32, ..node.call.clone() });
            nested.children.push(Vec::new());
            match of_node.get(&node.parent).filter(|_| node.id != op.node.id) {
                Some(parent) => nested.children[*parent].push(place),
                None => outer.push((place, op.phase)),
            }
        }
    }
    let mut all = Vec::new();
    for (place, phase) in outer {
        let mut works = Vec::new();
        nested.works(place, &mut works);
        all.extend(
            works.into_iter().filter(|(_, works)| !works.is_empty()).map(|(_, works)| RecordedOp {
                phase,
                works,
                times: 1,
                recorded: None,
            }),
        );
    }
    Ok(Recorded { kind: "execution-trace", dtype: dtype_of(&all), ops: all, ..Recorded::default() })
}
