//! Tables of op times as traces: the rows of the one layer are repeated as often as there are layers, each
//! reading what the one before made; backward ops follow in the reverse order.

use std::collections::HashMap;
use std::path::Path;

use networks::Saved;
use schema::{Bytes, InPlace, Nanos, Op, OpKind, Phase, Role, Tensor, TensorId, Trace};

use super::error::ImportError;
use super::recorded::functions::{Row, Table, field};
use super::recording::{ImportOptions, of_pytorch};

/// Imports a table, with the labels that lie beside it.
pub(super) fn import(
    bytes: &[u8],
    file: &Path,
    options: &ImportOptions,
) -> Result<Trace, ImportError> {
    let labels = std::fs::read_to_string(file.with_extension("json")).ok();
    let table = Table::read(bytes, file, labels.as_deref())?;
    let mut graph = Graph::new(&table);
    let block = table.block();
    for (row, copy) in table.order() {
        // The next layer takes what the last one made, and not what the first took.
        let hidden = (copy > 0).then(|| block.clone());
        graph.forward(row, copy, hidden)?;
    }
    graph.backward();
    graph.free();
    let mut notes = vec![
        "ops take what was recorded of each alone, with what the host took to launch it"
            .to_string(),
        "rows that launch nothing are left out; what a backward op needs is told from its name"
            .into(),
        "neither the loss, which takes no time here, nor the optimizer is in the table".into(),
    ];
    match labels {
        Some(_) => notes.push(format!("the table's layer stands for {} alike", table.copies)),
        None => notes.push("without labels beside it its layers count once".into()),
    }
    let device = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let device = if device.is_empty() { "an unstated device".into() } else { device.into_owned() };
    let of = (graph.tensors, graph.ops);
    Ok(of_pytorch((file, options), (device, "a table of op times"), notes, of))
}

struct Forward {
    op: usize,
    inputs: Vec<TensorId>,
    parameters: Vec<TensorId>,
    saved: Vec<TensorId>,
    output: TensorId,
    /// Whether the gradient is handed on as it is.
    handed_on: bool,
    duration: Nanos,
}

struct Graph<'a> {
    table: &'a Table,
    tensors: Vec<Tensor>,
    ops: Vec<Op>,
    forwards: Vec<Forward>,
    rows: HashMap<&'a str, usize>,
    /// The storage that a row's result lies in.
    values: HashMap<usize, TensorId>,
}

impl<'a> Graph<'a> {
    fn new(table: &'a Table) -> Self {
        let names = table.rows.iter().enumerate().map(|(row, (_, of))| (field(of, "Name"), row));
        Self {
            table,
            tensors: Vec::new(),
            ops: Vec::new(),
            forwards: Vec::new(),
            rows: names.filter(|(name, _)| !name.is_empty()).collect(),
            values: HashMap::new(),
        }
    }

    fn tensor(&mut self, name: String, bytes: u64, role: Role) -> TensorId {
        self.tensors.push(Tensor::new(name, Bytes(bytes), role));
        TensorId::from_index(self.tensors.len() - 1)
    }

    fn gradient(&mut self, of: TensorId) -> TensorId {
        let Tensor { name, bytes, .. } = &self.tensors[of.index()];
        let (name, bytes) = (format!("{name} gradient"), bytes.0);
        self.tensor(name, bytes, Role::Gradient)
    }

    /// The rows whose results a row takes, in their order.
    fn takes(&self, row: &Row) -> Vec<usize> {
        let mut taken = Vec::new();
        for text in [field(row, "_args"), field(row, "_kwargs")] {
            // What stands in quotes is a text.
            for bare in text.split('\'').step_by(2) {
                let words = bare.split(|of: char| !of.is_alphanumeric() && of != '_');
                for found in words.filter_map(|word| self.rows.get(word)) {
                    if !taken.contains(found) {
                        taken.push(*found);
                    }
                }
            }
        }
        taken
    }

    fn forward(
        &mut self,
        index: usize,
        copy: u32,
        hidden: Option<(std::ops::Range<usize>, Option<usize>)>,
    ) -> Result<(), ImportError> {
        let (number, row) = &self.table.rows[index];
        let [forward, backward, added] = self.table.latencies(*number, row)?;
        let function = self.table.function(row, backward > Nanos::ZERO);
        let name = match (copy, field(row, "Name")) {
            (0, name) => name.to_string(),
            (_, name) => format!("{name}.{copy}"),
        };
        let made = function.bytes();
        let role = match field(row, "op") {
            "placeholder" => Some(Role::Input),
            "get_attr" => Some(Role::Parameter),
            "output" => return Ok(()),
            _ => None,
        };
        if let Some(role) = role {
            let id = self.tensor(name, made, role);
            self.values.insert(index, id);
            return Ok(());
        }
        let mut inputs: Vec<TensorId> = Vec::new();
        for taken in self.takes(row) {
            let mut id = self.values.get(&taken).copied();
            if let Some((block, Some(last))) = &hidden
                && !block.contains(&taken)
                && let (Some(was), Some(now)) = (id, self.values.get(last))
                && self.tensors[was.index()].role == Role::Activation
                && self.tensors[was.index()].bytes == self.tensors[now.index()].bytes
            {
                id = Some(*now);
            }
            inputs.extend(id.filter(|id| !inputs.contains(id)));
        }
        let passes = function.passes();
        let Some(work) = passes.forward.first() else {
            // A view lies where its operand does; what has no operand is a number.
            if let Some(of) = inputs.first() {
                self.values.insert(index, *of);
            }
            return Ok(());
        };
        let mut op = Op::new(&name, (work.kind, Phase::Forward), forward);
        let output = self.tensor(name.clone(), made, Role::Activation);
        op.writes.push(output);
        op.reads.clone_from(&inputs);
        let parameters: Vec<TensorId> = (function.parameters().into_iter().filter(|of| *of > 0))
            .map(|elements| {
                let bytes = elements.saturating_mul(function.width);
                self.tensor(format!("{name} parameter"), bytes, Role::Parameter)
            })
            .collect();
        op.reads.extend(&parameters);
        let differentiable = backward > Nanos::ZERO;
        let mut saved = Vec::new();
        if differentiable {
            match function.saves() {
                Saved::Nothing => {}
                Saved::Inputs => saved.clone_from(&op.reads),
                Saved::Output => saved.push(output),
                Saved::Mask => {
                    let mask = self.tensor(
                        format!("{name} mask"),
                        made / function.width.max(1),
                        Role::Activation,
                    );
                    op.writes.push(mask);
                    saved.push(mask);
                }
            }
        }
        self.values.insert(index, output);
        if differentiable {
            let role = |id: &TensorId| self.tensors[id.index()].role;
            let of = |wanted: Role| inputs.iter().copied().filter(move |id| role(id) == wanted);
            self.forwards.push(Forward {
                op: self.ops.len(),
                parameters: of(Role::Parameter).chain(parameters).collect(),
                inputs: of(Role::Activation).collect(),
                saved,
                output,
                handed_on: passes.backward.is_empty(),
                duration: backward + added,
            });
        }
        self.ops.push(op);
        Ok(())
    }

    fn backward(&mut self) {
        let mut gradients: HashMap<TensorId, TensorId> = HashMap::new();
        for of in std::mem::take(&mut self.forwards).into_iter().rev() {
            let forward = &self.ops[of.op];
            let name = format!("{} backward", forward.name);
            let mut op = Op::new(&name, (forward.kind, Phase::Backward), of.duration);
            let own = match gradients.get(&of.output) {
                Some(known) => *known,
                // The loss, which is not in the table, makes it in no time.
                None => {
                    let id = self.gradient(of.output);
                    let name = format!("loss of {}", self.tensors[of.output.index()].name);
                    let mut loss = Op::new(name, (OpKind::Loss, Phase::Backward), Nanos::ZERO);
                    (loss.reads, loss.writes) = (vec![of.output], vec![id]);
                    self.ops.push(loss);
                    id
                }
            };
            op.reads.push(own);
            op.reads.extend(of.saved.iter().filter(|id| **id != own));
            for input in of.inputs {
                let bytes = |id: TensorId| self.tensors[id.index()].bytes;
                match gradients.get(&input).copied() {
                    None if of.handed_on && bytes(input) == bytes(own) => {
                        gradients.insert(input, own);
                    }
                    known => {
                        let made = self.gradient(input);
                        op.writes.push(made);
                        // What was there before is added, over itself where nobody else needs it.
                        if let Some(known) = known.filter(|known| !op.reads.contains(known)) {
                            op.reads.push(known);
                            if !gradients.iter().any(|(of, id)| *of != input && *id == known) {
                                op.in_place.push(InPlace { input: known, output: made });
                            }
                        }
                        gradients.insert(input, made);
                    }
                }
            }
            for parameter in of.parameters {
                let made = self.gradient(parameter);
                op.writes.push(made);
            }
            self.ops.push(op);
        }
    }

    /// Each tensor that an op makes and that is no parameter's gradient is given back after its last use.
    fn free(&mut self) {
        let mut last: Vec<Option<usize>> = vec![None; self.tensors.len()];
        let mut read = vec![false; self.tensors.len()];
        for (index, op) in self.ops.iter().enumerate() {
            op.reads.iter().for_each(|id| read[id.index()] = true);
            for id in op.reads.iter().chain(&op.writes) {
                last[id.index()] = Some(index);
            }
        }
        for (index, (tensor, last)) in self.tensors.iter().zip(last).enumerate() {
            let passing = match tensor.role {
                Role::Activation => true,
                // Nobody reads a parameter's in the table.
                Role::Gradient => read[index],
                _ => false,
            };
            if let Some(last) = last.filter(|_| passing) {
                self.ops[last].frees.push(TensorId::from_index(index));
            }
        }
    }
}
