//! Which memory each op's output occupies: one of its own, that of an input which it reads for the
//! last time, or an input's together with it.

use schema::{OpId, OpKind, Phase};

use super::file::Record;
use crate::import::recording::InPlaceOps;

/// Where outputs lie and how long they are needed. Outputs are named by the position of their op.
pub(super) struct Layout {
    /// The output that holds each op's output: its own, or for a view the one that it views.
    pub storage: Vec<usize>,
    /// What each op reads, by storage, each once.
    pub reads: Vec<Vec<usize>>,
    /// The last op that needs each storage: its last reader, or the op that makes it.
    pub last_use: Vec<usize>,
    /// The input's storage over which each op lays its output.
    pub laid_over: Vec<Option<usize>>,
    /// What each op needs beside inputs and output.
    pub workspace: Vec<u64>,
    /// What could not be expressed, for people.
    pub notes: Vec<String>,
}

/// What an op whose workspace is negative does with its output.
enum Saving {
    /// It lays it over this input.
    Over(usize),
    ViewOf(usize),
}

impl Layout {
    pub fn new(ops: &[Record], in_place: InPlaceOps) -> Self {
        let overwrites = match in_place {
            InPlaceOps::AsRecorded => Overwrites::none(ops),
            InPlaceOps::Alias => Overwrites::of_in_place_ops(ops),
        };
        let mut layout = Self {
            storage: (0..ops.len()).collect(),
            last_use: last_readers(&overwrites.reads),
            reads: overwrites.reads,
            laid_over: vec![None; ops.len()],
            workspace: vec![0; ops.len()],
            notes: overwrites.notes,
        };
        let mut read_by = vec![usize::MAX; ops.len()];
        // In order: a view can only lengthen the life of what it reads itself, so that nothing
        // that was decided for an earlier op is undone.
        for index in 0..ops.len() {
            let storage = &layout.storage;
            let mut reads = std::mem::take(&mut layout.reads[index]);
            reads.iter_mut().for_each(|read| *read = storage[*read]);
            reads.retain(|read| std::mem::replace(&mut read_by[*read], index) != index);
            layout.reads[index] = reads;
            layout.place_output(ops, index, overwrites.over[index]);
        }
        layout
    }

    fn place_output(&mut self, ops: &[Record], index: usize, overwrites: Option<usize>) {
        let op = &ops[index];
        let saved = op.workspace.min(0).unsigned_abs();
        self.workspace[index] = op.workspace.max(0).unsigned_abs();
        if let Some(over) = overwrites.map(|output| self.storage[output]) {
            if self.last_use[over] == index {
                self.write_over(ops, index, over, saved);
                return;
            }
            self.notes.push(format!(
                "{} keeps an output of its own: a view of what it would write over is read later",
                title(op, index)
            ));
        }
        if saved == 0 {
            return;
        }
        match self.saving(ops, index, saved) {
            Some(Saving::Over(input)) => self.write_over(ops, index, input, saved),
            Some(Saving::ViewOf(input)) => {
                self.storage[index] = input;
                self.last_use[input] = self.last_use[input].max(self.last_use[index]);
                self.workspace[index] = op.output - saved;
            }
            None => self.note_over_estimate(op, index, saved),
        }
    }

    /// Lays the op's output over an input that dies with it. Where the profile states a smaller
    /// saving than that makes, the op needs the rest besides.
    fn write_over(&mut self, ops: &[Record], index: usize, input: usize, saved: u64) {
        let shared = shared(ops, input, index);
        self.laid_over[index] = Some(input);
        if saved > shared {
            self.note_over_estimate(&ops[index], index, saved - shared);
        } else if saved > 0 {
            self.workspace[index] = shared - saved;
        }
    }

    /// How the op can do with `saved` bytes less than its inputs and its output.
    fn saving(&self, ops: &[Record], index: usize, saved: u64) -> Option<Saving> {
        let op = &ops[index];
        let reads = || self.reads[index].iter().copied();
        let donors = reads()
            .filter(|input| self.last_use[*input] == index && shared(ops, *input, index) >= saved);
        // The one that saves just so much; a gradient rather than an activation; the latest.
        let fit = |input: &usize| {
            (shared(ops, *input, index) == saved, ops[*input].phase == Phase::Backward, *input)
        };
        let mut viewed = reads().filter(|input| {
            op.kind == OpKind::View && ops[*input].output == op.output && op.output >= saved
        });
        (donors.max_by_key(fit).map(Saving::Over)).or_else(|| viewed.next().map(Saving::ViewOf))
    }

    fn note_over_estimate(&mut self, op: &Record, index: usize, bytes: u64) {
        self.notes.push(format!(
            "{} reuses memory in a way that cannot be told from the profile: memory at this op may \
             be over-estimated by {bytes} bytes",
            title(op, index)
        ));
    }
}

/// How much an output saves that lies over an input.
fn shared(ops: &[Record], input: usize, output: usize) -> u64 {
    ops[input].output.min(ops[output].output)
}

/// The last reader of each output, or the op that makes it.
fn last_readers(reads: &[Vec<usize>]) -> Vec<usize> {
    let mut last: Vec<usize> = (0..reads.len()).collect();
    for (index, reads) in reads.iter().enumerate() {
        for read in reads {
            last[*read] = index;
        }
    }
    last
}

/// What the ops read once in-place ops are taken as such.
struct Overwrites {
    reads: Vec<Vec<usize>>,
    /// The output over which each op writes.
    over: Vec<Option<usize>>,
    notes: Vec<String>,
}

impl Overwrites {
    fn none(ops: &[Record]) -> Self {
        let reads = ops.iter().map(|op| op.inputs.clone()).collect();
        Self { reads, over: vec![None; ops.len()], notes: Vec::new() }
    }

    /// A forward op whose name ends in `_` writes over its first input. Who reads that input later
    /// (its own backward, say) reads what has taken its place.
    fn of_in_place_ops(ops: &[Record]) -> Self {
        let mut overwrites = Self::none(ops);
        // What is now where each output was.
        let mut current: Vec<usize> = (0..ops.len()).collect();
        for (index, op) in ops.iter().enumerate() {
            for read in &mut overwrites.reads[index] {
                *read = resolve(&mut current, *read);
            }
            if op.phase != Phase::Forward || !op.name.ends_with('_') {
                continue;
            }
            match overwrites.reads[index].first().copied() {
                Some(input) if ops[input].output == op.output => {
                    overwrites.over[index] = Some(input);
                    current[input] = index;
                }
                first => {
                    let why = match first {
                        Some(_) => "its first input has another size",
                        None => "it reads no output of another op",
                    };
                    let title = title(op, index);
                    overwrites.notes.push(format!("{title} keeps an output of its own: {why}"));
                }
            }
        }
        overwrites
    }
}

/// Follows `current` to its end, and shortens the way for the next time.
fn resolve(current: &mut [usize], mut output: usize) -> usize {
    while current[output] != output {
        current[output] = current[current[output]];
        output = current[output];
    }
    output
}

/// An op of the graph, for people: its name and id.
fn title(record: &Record, index: usize) -> String {
    let id = OpId::from_index(index);
    if record.id == u64::from(id.0) {
        format!("op {} ({})", record.id, record.name)
    } else {
        format!("op {} ({}, position {})", record.id, record.name, id.0)
    }
}
