//! Replay of a log's references: which storage each name stands for, and when a storage dies.

use std::collections::HashMap;

use schema::{Bytes, InPlace, Nanos, Op, OpId, OpKind, Phase, Role, Tensor, TensorId};

use crate::import::error::{DtrProblem, quoted};
use crate::import::op_kind::op_kind;
use crate::import::recording::InPlaceOps;

/// Sums beyond this are no real iteration's; a trace refuses them, too.
const LARGEST_SUM: u64 = 1 << 60;

/// The state of the replay after a number of lines. Storages are the trace's tensors.
pub(super) struct Replay {
    in_place: InPlaceOps,
    phase: Phase,
    tensors: Vec<Tensor>,
    ops: Vec<Op>,
    /// The storage that each name stands for.
    names: HashMap<String, TensorId>,
    /// How many names each storage has.
    references: Vec<u32>,
    /// The op after which each storage dies; one past the last for a storage that is held until
    /// the next op has run.
    dies_after: Vec<Option<OpId>>,
    /// The last op that was seen to read each storage.
    read_by: Vec<Option<OpId>>,
    /// In-place writes: op, storage before, storage after.
    overwrites: Vec<(OpId, InPlace)>,
    bytes: u64,
    time: u64,
    seen: Seen,
}

pub(super) struct Replayed {
    pub tensors: Vec<Tensor>,
    pub ops: Vec<Op>,
    /// What had to be decided, for people.
    pub notes: Vec<String>,
}

#[derive(Default)]
struct Seen {
    backward_marks: usize,
    undefined_releases: usize,
    annotations: usize,
    /// Constants that were released before an op ran that could have used them.
    held: usize,
    held_bytes: u64,
}

impl Replay {
    pub fn new(in_place: InPlaceOps) -> Self {
        Self {
            in_place,
            phase: Phase::Forward,
            tensors: Vec::new(),
            ops: Vec::new(),
            names: HashMap::new(),
            references: Vec::new(),
            dies_after: Vec::new(),
            read_by: Vec::new(),
            overwrites: Vec::new(),
            bytes: 0,
            time: 0,
            seen: Seen::default(),
        }
    }

    /// A tensor that no op writes. It appears before the op that comes next.
    pub fn constant(&mut self, name: String, bytes: u64) -> Result<(), DtrProblem> {
        let storage = self.new_storage(&name, bytes, Role::Parameter)?;
        if !self.ops.is_empty() {
            self.tensors[storage.index()].appears_before = Some(OpId::from_index(self.ops.len()));
        }
        self.define("CONSTANT", name, storage)
    }

    /// An op that reads `args`. What it writes follows.
    pub fn begin_op(
        &mut self,
        name: String,
        args: &[String],
        time: u64,
    ) -> Result<OpId, DtrProblem> {
        let op = OpId::from_index(self.ops.len());
        self.time += time;
        if self.time > LARGEST_SUM {
            return Err(DtrProblem::TooLarge { what: "time of all ops" });
        }
        let mut reads = Vec::new();
        for arg in args {
            let storage = self.storage_of("an op", arg)?;
            if self.read_by[storage.index()].replace(op) != Some(op) {
                reads.push(storage);
            }
        }
        let about = (op_kind(&name), self.phase);
        self.ops.push(Op { reads, ..Op::new(name, about, Nanos(time)) });
        Ok(op)
    }

    /// A result of a call in a storage of its own.
    pub fn new_result(&mut self, op: OpId, name: String, bytes: u64) -> Result<(), DtrProblem> {
        let storage = self.written_by(op, &name, bytes)?;
        self.define("CALL", name, storage)
    }

    /// A result of a call that is a view of an argument.
    pub fn shared_result(
        &mut self,
        name: String,
        arg: u64,
        args: &[String],
    ) -> Result<(), DtrProblem> {
        let source = argument(args, arg, "ALIAS")?;
        let storage = self.storage_of("CALL", source)?;
        self.define("CALL", name, storage)
    }

    /// A call whose results all share storages of its arguments made views, whatever its name.
    pub fn end_call(&mut self, op: OpId, results: usize) {
        let op = &mut self.ops[op.index()];
        if results > 0 && op.writes.is_empty() {
            op.kind = OpKind::View;
        }
    }

    /// The arguments at `indices` get new storages: all are allocated, then the old ones lose the
    /// argument's reference. Other names keep the old storage and what is in it.
    pub fn mutate(&mut self, op: OpId, args: &[String], indices: &[u64]) -> Result<(), DtrProblem> {
        let mut done = vec![false; args.len()];
        let mut rebound = Vec::with_capacity(indices.len().min(args.len()));
        for &index in indices {
            let arg = argument(args, index, "MUTATE")?;
            if std::mem::replace(&mut done[index as usize], true) {
                return Err(DtrProblem::MutatedTwice { index });
            }
            let old = self.storage_of("MUTATE", arg)?;
            let new = self.written_by(op, arg, self.tensors[old.index()].bytes.0)?;
            self.overwrites.push((op, InPlace { input: old, output: new }));
            rebound.push((arg, new));
        }
        for (name, new) in rebound {
            self.references[new.index()] += 1;
            if let Some(old) = self.names.insert(name.clone(), new) {
                self.drop_reference(old);
            }
        }
        Ok(())
    }

    /// One more name for a storage.
    pub fn copy(&mut self, name: String, source: &str) -> Result<(), DtrProblem> {
        let storage = self.storage_of("COPY", source)?;
        self.define("COPY", name, storage)
    }

    /// A name goes over from its storage to that of `source`.
    pub fn copy_from(&mut self, name: String, source: &str) -> Result<(), DtrProblem> {
        let new = self.storage_of("COPY_FROM", source)?;
        let old = self.storage_of("COPY_FROM", &name)?;
        // The new reference first: a storage that only changes its name must not die.
        self.references[new.index()] += 1;
        self.drop_reference(old);
        self.names.insert(name, new);
        Ok(())
    }

    /// A name ends. The log may end names that began before it did.
    pub fn release(&mut self, name: &str) {
        match self.names.remove(name) {
            Some(storage) => self.drop_reference(storage),
            None => self.seen.undefined_releases += 1,
        }
    }

    /// A remark of whoever recorded the log.
    pub fn annotate(&mut self, annotation: &str) {
        if annotation == "BACKWARD" {
            self.phase = Phase::Backward;
            self.seen.backward_marks += 1;
        } else {
            self.seen.annotations += 1;
        }
    }

    fn storage_of(&self, instruction: &'static str, name: &str) -> Result<TensorId, DtrProblem> {
        let undefined = || DtrProblem::Undefined { instruction, name: quoted(name) };
        self.names.get(name).copied().ok_or_else(undefined)
    }

    fn define(
        &mut self,
        instruction: &'static str,
        name: String,
        storage: TensorId,
    ) -> Result<(), DtrProblem> {
        if self.names.contains_key(&name) {
            return Err(DtrProblem::Redefined { instruction, name: quoted(&name) });
        }
        self.references[storage.index()] += 1;
        self.names.insert(name, storage);
        Ok(())
    }

    fn written_by(&mut self, op: OpId, name: &str, bytes: u64) -> Result<TensorId, DtrProblem> {
        let role = match self.phase {
            Phase::Forward => Role::Activation,
            Phase::Backward | Phase::Update => Role::Gradient,
        };
        let storage = self.new_storage(name, bytes, role)?;
        self.ops[op.index()].writes.push(storage);
        Ok(storage)
    }

    fn new_storage(&mut self, name: &str, bytes: u64, role: Role) -> Result<TensorId, DtrProblem> {
        self.bytes += bytes;
        if self.bytes > LARGEST_SUM {
            return Err(DtrProblem::TooLarge { what: "memory of all tensors" });
        }
        let storage = TensorId::from_index(self.tensors.len());
        self.tensors.push(Tensor::new(name, Bytes(bytes), role));
        self.references.push(0);
        self.dies_after.push(None);
        self.read_by.push(None);
        Ok(storage)
    }

    /// A storage without a name dies: after the op that ran last, or, where no op has run since it
    /// appeared, after the next one. (Memory without an op to hold it is no part of a trace.)
    fn drop_reference(&mut self, storage: TensorId) {
        let index = storage.index();
        self.references[index] -= 1;
        if self.references[index] > 0 {
            return;
        }
        let next = OpId::from_index(self.ops.len());
        let last = self.ops.len().checked_sub(1).map(OpId::from_index);
        match last {
            Some(last) if self.tensors[index].appears_before != Some(next) => {
                self.dies_after[index] = Some(last);
            }
            _ => {
                self.dies_after[index] = Some(next);
                self.seen.held += 1;
                self.seen.held_bytes += self.tensors[index].bytes.0;
            }
        }
    }

    /// What the whole log makes.
    pub fn finish(mut self) -> Result<Replayed, DtrProblem> {
        let Some(last) = self.ops.len().checked_sub(1).map(OpId::from_index) else {
            return Err(DtrProblem::NoOps);
        };
        let (mut late, mut late_bytes) = (0, 0);
        for (index, tensor) in self.tensors.iter_mut().enumerate() {
            if tensor.appears_before.is_some_and(|op| op > last) {
                tensor.appears_before = Some(last);
                late += 1;
                late_bytes += tensor.bytes.0;
            }
            if let Some(op) = self.dies_after[index] {
                let op = op.min(last);
                self.dies_after[index] = Some(op);
                self.ops[op.index()].frees.push(TensorId::from_index(index));
            }
        }
        let mut notes = vec![
            "every op is taken as one that can run again with the same result, random state \
             saved, as DTR does"
                .to_string(),
        ];
        notes.extend(self.seen.notes());
        if late > 0 {
            notes.push(format!(
                "{late} constants of {late_bytes} bytes appear after the last op; they are counted \
                 at that op"
            ));
        }
        notes.extend(self.resolve_overwrites());
        Ok(Replayed { tensors: self.tensors, ops: self.ops, notes })
    }

    /// Lays the outputs of in-place writes over their arguments, where options say so and nothing
    /// keeps the argument alive.
    fn resolve_overwrites(&mut self) -> Option<String> {
        let total = self.overwrites.len();
        if total == 0 {
            return None;
        }
        if self.in_place == InPlaceOps::AsRecorded {
            return Some(format!(
                "{total} in-place writes make tensors of their own, as DTR's simulator has them"
            ));
        }
        let mut laid_over = vec![false; self.tensors.len()];
        let mut constants = 0;
        let mut alive = 0;
        for &(op, pair) in &self.overwrites {
            let input = pair.input.index();
            if self.tensors[input].role == Role::Parameter {
                constants += 1;
            } else if self.dies_after[input] != Some(op)
                || std::mem::replace(&mut laid_over[input], true)
            {
                alive += 1;
            } else {
                self.ops[op.index()].in_place.push(pair);
            }
        }
        Some(format!(
            "{} of {total} in-place writes take over their argument's memory; {constants} write \
             over a constant and {alive} over a tensor that is needed as it was: these make \
             tensors of their own",
            total - constants - alive
        ))
    }
}

impl Seen {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match self.backward_marks {
            0 => notes.push(
                "the log marks no backward phase: every op is taken as one of the forward phase"
                    .to_string(),
            ),
            1 => {}
            marks => notes.push(format!(
                "the log marks {marks} backward phases: every op after the first mark is taken as \
                 one of the backward phase"
            )),
        }
        if self.undefined_releases > 0 {
            notes.push(format!(
                "{} releases of names that the log does not define are ignored: they began before \
                 the log does",
                self.undefined_releases
            ));
        }
        if self.annotations > 0 {
            notes.push(format!(
                "{} annotations other than the first START and BACKWARD are passed over",
                self.annotations
            ));
        }
        if self.held > 0 {
            notes.push(format!(
                "{} constants of {} bytes are released before an op has run since they appeared; \
                 they are held until the next op has run",
                self.held, self.held_bytes
            ));
        }
        notes
    }
}

fn argument<'a>(
    args: &'a [String],
    index: u64,
    field: &'static str,
) -> Result<&'a String, DtrProblem> {
    let position = usize::try_from(index).ok();
    position.and_then(|position| args.get(position)).ok_or(DtrProblem::Argument {
        field,
        index,
        args: args.len(),
    })
}
