//! What the ops of one iteration read and make, and how long it lives: their allocations and frees in
//! the order of time, and the sizes of what they were given.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use schema::{OpKind, Phase};

use super::file::{File, Input, Memory};
use super::live::{Blocks, GRAIN, Reader};
use super::units::{KernelOp, Nesting};
use crate::import::op_kind::op_kind;
use crate::import::storages::{Storage, Unit, has_effects, is_in_place, phases};

#[derive(Default)]
pub(super) struct Flow {
    pub storages: Vec<Storage>,
    pub units: Vec<Unit>,
    /// Bytes of what was there before the iteration and stays, and that no op is known to use.
    pub unused_before: u64,
    /// Allocated bytes at most.
    pub peak: u64,
    /// Allocations of which no use is known, and their bytes.
    pub unknown: (u64, u64),
    /// Ops whose inputs are in part or wholly unknown.
    pub unknown_inputs: u64,
}

enum Item {
    Op(usize),
    View(usize),
    Memory(usize),
}

struct Walk<'a> {
    file: &'a File,
    ops: &'a [KernelOp],
    phases: Vec<Phase>,
    blocks: Blocks,
    addresses: HashMap<u64, usize>,
    /// Allocated outside of any op: made by the op that comes next on the thread.
    pending: HashMap<u32, Vec<usize>>,
    /// Forward ops by autograd's number; of those with the same, the last has a backward.
    of_sequence: HashMap<i64, usize>,
    touched: Vec<Vec<usize>>,
    /// The gradients that a node was given.
    gradients: HashMap<usize, Vec<usize>>,
    parameters: HashSet<u32>,
    inputs_known: Vec<bool>,
    /// The memory in each op's time: from its start to the next one's.
    peaks: Vec<u64>,
    /// Bytes from before the recording that are given back in it, such as gradients of the step before.
    given_back: u64,
}

/// `memory` is that of one device in order of time, of the whole recording; `base` is what was
/// allocated before it.
pub(super) fn flow(
    file: &File,
    nesting: &Nesting,
    ops: &[KernelOp],
    memory: &[&Memory],
    window: &Range<i64>,
    base: u64,
) -> Flow {
    let phases = phases(ops.iter().map(|op| (op.node.is_some(), op.thread)).collect());
    let mut walk = Walk {
        file,
        ops,
        of_sequence: of_sequence(file, nesting, ops, &phases),
        phases,
        blocks: Blocks::default(),
        addresses: HashMap::new(),
        pending: HashMap::new(),
        touched: vec![Vec::new(); ops.len()],
        gradients: HashMap::new(),
        parameters: parameters(file),
        inputs_known: vec![true; ops.len()],
        peaks: vec![0; ops.len()],
        given_back: 0,
    };
    let mut level = base;
    let before = memory.partition_point(|event| event.time < window.start);
    for event in &memory[..before] {
        walk.memory(event, None, false);
        level = level.saturating_add_signed(event.bytes);
    }
    let mut flow = Flow { peak: level, ..Flow::default() };
    let mut current = None;
    let mut before_first = level;
    for item in items(file, nesting, ops, memory, window) {
        match item {
            Item::Op(op) => {
                walk.begin(op);
                walk.peaks[op] = if op == 0 { before_first } else { level };
                current = Some(op);
            }
            Item::View(span) => walk.view(span, current),
            Item::Memory(event) => {
                let event = memory[event];
                walk.memory(event, current, true);
                level = level.saturating_add_signed(event.bytes);
                flow.peak = flow.peak.max(level);
                match current {
                    Some(op) => walk.peaks[op] = walk.peaks[op].max(level),
                    None => before_first = before_first.max(level),
                }
            }
        }
    }
    walk.finish(base, flow)
}

fn of_sequence(
    file: &File,
    nesting: &Nesting,
    ops: &[KernelOp],
    phases: &[Phase],
) -> HashMap<i64, usize> {
    let forward = |op: &usize| phases[*op] == Phase::Forward;
    let by_span: HashMap<usize, usize> =
        (0..ops.len()).filter(forward).filter_map(|op| Some((ops[op].span?, op))).collect();
    let mut numbered: Vec<(i64, i64, usize)> = Vec::new();
    for (index, span) in file.spans.iter().enumerate() {
        if let (Some(number), Some(op)) = (span.sequence, by_span.get(&nesting.op_of(index))) {
            numbered.push((number, span.start, *op));
        }
    }
    numbered.sort_unstable();
    numbered.into_iter().map(|(number, _, op)| (number, op)).collect()
}

/// Sizes of parameters: those of the gradients that autograd accumulates.
fn parameters(file: &File) -> HashSet<u32> {
    let accumulate = |name: u32| file.name(name).starts_with("torch::autograd::AccumulateGrad");
    let spans = file.spans.iter().filter(|span| accumulate(span.name));
    spans.flat_map(|span| span.inputs.iter().map(|input| input.shape)).collect()
}

/// All of an iteration in order; an op before the memory that it takes at once.
fn items(
    file: &File,
    nesting: &Nesting,
    ops: &[KernelOp],
    memory: &[&Memory],
    window: &Range<i64>,
) -> Vec<Item> {
    let has_kernels: HashSet<usize> = ops.iter().filter_map(|op| op.span).collect();
    let views = nesting.outermost_ops().filter(|span| {
        let of = &file.spans[*span];
        window.contains(&of.start)
            && !has_kernels.contains(span)
            && op_kind(file.name(of.name)) == OpKind::View
    });
    let mut items: Vec<(i64, u8, Item)> = views
        .map(|span| (file.spans[span].start, 0, Item::View(span)))
        .chain(ops.iter().enumerate().map(|(index, op)| (op.start, 0, Item::Op(index))))
        .collect();
    for (index, event) in memory.iter().enumerate() {
        if window.contains(&event.time) {
            items.push((event.time, 1, Item::Memory(index)));
        }
    }
    items.sort_by_key(|(time, order, _)| (*time, *order));
    items.into_iter().map(|(_, _, item)| item).collect()
}

impl Walk<'_> {
    fn reader(&self, op: usize) -> Reader {
        Reader { op, kind: op_kind(self.ops[op].name(self.file)), gradients: false }
    }

    fn inputs(&self, op: usize) -> &[Input] {
        match self.ops[op].span {
            // What comes from the host was there.
            Some(span) if self.ops[op].host_copies == 0 => &self.file.spans[span].inputs,
            _ => &[],
        }
    }

    fn memory(&mut self, event: &Memory, current: Option<usize>, in_iteration: bool) {
        let bytes = event.bytes.unsigned_abs();
        let is_inside = |op: usize| {
            let op = &self.ops[op];
            op.thread == event.thread && event.time <= op.end
        };
        let inside = current.is_some_and(is_inside);
        if event.bytes < 0 {
            let block = match event.address {
                Some(address) => self.addresses.remove(&address),
                None => self.blocks.meant_by_free(bytes, current, inside),
            };
            // What the recording does not know of is counted elsewhere, once for all of it; only what
            // is given back is not there for all of the iteration.
            if block.is_none() {
                self.given_back = self.given_back.saturating_add(bytes);
            }
            if let Some(block) = block {
                let maker = self.blocks.all[block].made_by;
                let from_host = maker.is_some_and(|op| self.ops[op].host_copies > 0);
                if event.address.is_none() && from_host {
                    self.blocks.replaced(block);
                }
                self.blocks.free(block, current);
                self.pending.values_mut().for_each(|list| list.retain(|one| *one != block));
            }
            return;
        }
        let maker = current.filter(|_| inside);
        let (kind, backward) = match maker {
            Some(op) => (self.reader(op).kind, self.phases[op] == Phase::Backward),
            None => (OpKind::Other, false),
        };
        let block = self.blocks.add(bytes, maker, kind, backward);
        match maker {
            Some(op) => self.touched[op].push(block),
            None if in_iteration => {
                self.pending.entry(event.thread).or_default().push(block);
            }
            None => {}
        }
        if let Some(old) = event.address.and_then(|address| self.addresses.insert(address, block)) {
            self.blocks.free(old, current);
        }
    }

    /// An op begins: what waits for a maker is its, and it reads what it was given.
    fn begin(&mut self, op: usize) {
        let reader = self.reader(op);
        let backward = self.phases[op] == Phase::Backward;
        let pending = self.pending.remove(&self.ops[op].thread).unwrap_or_default();
        for block in &pending {
            self.blocks.make(*block, op, reader.kind, backward);
        }
        self.touched[op].extend(&pending);
        let inputs: Vec<Input> = self.inputs(op).to_vec();
        let in_place = is_in_place(self.ops[op].name(self.file));
        let own = inputs.first().and_then(|input| self.blocks.first_of(&pending, input.bytes));
        // What is written over comes last: it is the less likely to be what nothing has read yet.
        let (target, others) = match inputs.split_first() {
            Some((target, others)) if in_place => (Some(*target), others),
            _ => (None, &inputs[..]),
        };
        self.inputs_known[op] = !inputs.is_empty() || !pending.is_empty();
        let gradients = self.gradients_of(op);
        let saved = self.saved_for(op);
        let mut taken = Vec::new();
        for input in others {
            self.give(*input, reader, false, [&gradients, &saved], &mut taken);
        }
        match target {
            Some(_) if own.is_some() => {}
            Some(target) => {
                if let Some(block) =
                    self.give(target, reader, true, [&gradients, &saved], &mut taken)
                {
                    self.blocks.change(block, reader);
                }
            }
            None => {}
        }
        self.touched[op].extend(taken);
    }

    /// Marks what an input is as read. Parameters, and what nothing fits, are none of the blocks.
    fn give(
        &mut self,
        input: Input,
        reader: Reader,
        written: bool,
        sure: [&[usize]; 2],
        taken: &mut Vec<usize>,
    ) -> Option<usize> {
        let backward = self.phases[reader.op] == Phase::Backward;
        let parameter = self.parameters.contains(&input.shape);
        let sure = sure.into_iter().find_map(|some| {
            let free: Vec<usize> =
                some.iter().copied().filter(|one| !taken.contains(one)).collect();
            self.blocks.first_of(&free, input.bytes)
        });
        let found = match sure {
            Some(block) => Some(block),
            None if input.bytes <= GRAIN || (parameter && (written || !backward)) => None,
            None => {
                let guess = self.blocks.find(input, Reader { gradients: backward, ..reader });
                guess.inspect(|block| self.blocks.guessed(*block, reader))
            }
        };
        match found {
            Some(block) => {
                self.blocks.read(block, reader);
                taken.push(block);
            }
            // What nothing of the iteration was ever as large as was there before it.
            None if parameter || !self.blocks.was_made(input.bytes) => {}
            None => self.inputs_known[reader.op] = false,
        }
        found
    }

    /// The gradients that the node around an op was given.
    fn gradients_of(&mut self, op: usize) -> Vec<usize> {
        let Some(node) = self.ops[op].node else { return Vec::new() };
        if let Some(known) = self.gradients.get(&node) {
            return known.clone();
        }
        let reader = Reader { gradients: true, ..self.reader(op) };
        let mut found: Vec<usize> = Vec::new();
        let any = Reader { gradients: false, kind: OpKind::Other, ..reader };
        for input in &self.file.spans[node].inputs {
            if input.bytes <= GRAIN {
                continue;
            }
            let one = self.blocks.find(*input, reader).or_else(|| self.blocks.find(*input, any));
            found.extend(one.filter(|one| !found.contains(one)));
        }
        self.gradients.insert(node, found.clone());
        found
    }

    /// What the forward op of a backward op read and made.
    fn saved_for(&self, op: usize) -> Vec<usize> {
        let sequence = self.ops[op].node.and_then(|node| self.file.spans[node].sequence);
        let forward = sequence.and_then(|sequence| self.of_sequence.get(&sequence));
        forward.map_or_else(Vec::new, |forward| self.touched[*forward].clone())
    }

    fn view(&mut self, span: usize, current: Option<usize>) {
        let span = &self.file.spans[span];
        let Some(input) = span.inputs.first().copied() else { return };
        if self.parameters.contains(&input.shape) {
            return;
        }
        let op = current.map_or(usize::MAX, |op| op + 1);
        let reader = Reader { op, kind: OpKind::View, gradients: false };
        if let Some(block) = self.blocks.find(input, reader) {
            self.blocks.view(block, self.file.name(span.name).contains("expand"));
        }
    }

    fn finish(self, base: u64, mut flow: Flow) -> Flow {
        let Self {
            file, ops, phases, mut blocks, touched, inputs_known, peaks, given_back, ..
        } = self;
        let unmade: HashSet<usize> = self.pending.into_values().flatten().collect();
        flow.unused_before = base.saturating_sub(given_back);
        // The blocks that are storages of the trace.
        let mut storage_of: Vec<Option<usize>> = vec![None; blocks.all.len()];
        for (index, block) in blocks.all.iter_mut().enumerate() {
            let freed_by = block.freed_by.filter(|_| block.freed);
            block.uses.retain(|op| freed_by.is_none_or(|freed| *op <= freed));
            let used_later = block.uses.iter().any(|op| Some(*op) != block.made_by);
            if block.made_by.is_none() && !used_later {
                if !block.freed && !unmade.contains(&index) {
                    flow.unused_before = flow.unused_before.saturating_add(block.bytes);
                }
                continue;
            }
            if !used_later {
                if !block.freed || block.freed_by > block.made_by {
                    flow.unknown.0 += 1;
                    flow.unknown.1 = flow.unknown.1.saturating_add(block.bytes);
                }
                continue;
            }
            // The framework kept it until then, so it is taken as used then.
            if let Some(freed) = freed_by {
                block.uses.push(freed);
            }
            // What comes from the host is there until the end, as an input.
            let from_host = |op: &usize| phases[*op] == Phase::Forward && ops[*op].host_copies > 0;
            let appears = block.made_by.filter(from_host);
            storage_of[index] = Some(flow.storages.len());
            let made = block.made_by.map(|op| (op, ops[op].name(file), phases[op]));
            flow.storages.push(Storage::new(block.bytes, made, appears.is_some(), freed_by));
        }
        for (op, of) in ops.iter().enumerate() {
            let name = of.name(file);
            let known = |used: &usize| {
                !blocks.all[*used].changes.contains(&op) || blocks.all[*used].made_by.is_some()
            };
            let does = touched[op].iter().any(|used| {
                blocks.all[*used].made_by == Some(op) || blocks.all[*used].changes.contains(&op)
            });
            flow.unknown_inputs += u64::from(!inputs_known[op]);
            flow.units.push(Unit {
                name: name.into(),
                phase: phases[op],
                duration: of.duration,
                reads: Vec::new(),
                changes: Vec::new(),
                workspace: 0,
                rerunnable: inputs_known[op]
                    && does
                    && of.host_copies == 0
                    && phases[op] != Phase::Update
                    && touched[op].iter().all(known)
                    && !has_effects(name),
            });
        }
        for (block, storage) in blocks.all.iter().zip(&storage_of) {
            let Some(storage) = storage else { continue };
            for op in &block.uses {
                flow.units[*op].reads.push(*storage);
            }
            for op in &block.changes {
                flow.units[*op].changes.push(*storage);
            }
        }
        flow.fill_up(&peaks);
        flow
    }
}

impl Flow {
    /// What was allocated beside the known storages in an op's time, the op needs beside them.
    fn fill_up(&mut self, peaks: &[u64]) {
        let mut change = vec![0i128; self.units.len() + 1];
        for storage in &self.storages {
            change[storage.made_by.or(storage.appears).unwrap_or(0)] += i128::from(storage.bytes);
            if let Some(op) = storage.freed_by {
                change[op + 1] -= i128::from(storage.bytes);
            }
        }
        let mut held = i128::from(self.unused_before);
        for ((unit, change), peak) in self.units.iter_mut().zip(change).zip(peaks) {
            held += change;
            unit.workspace = u64::try_from(i128::from(*peak) - held).unwrap_or(0);
        }
    }
}
