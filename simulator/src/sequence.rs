//! What the compute lane runs in which order, and what memory that needs, under given decisions.
//!
//! Ops run in the trace's order. Before an op that needs a tensor which was given up, the op that
//! made it is run again, and before that whatever it needs, recursively (PooCH 3.2). What such a
//! burst brings back stays until its own next use where it has one and is to stay, and else until
//! the burst is over, so that each op runs at most once in a burst.
//!
//! Codecs are runs of their own. A tensor that is made smaller is compressed right after the op
//! that uses it last before its gap, and its memory is given back then; it is decompressed right
//! before the run that needs it next. In between there is its *compressed form*, which is a tensor
//! of its own: it stays on the device, or is swapped. Where copies out start with the last use, a
//! tensor that leaves in its compressed form is compressed right before that use, so that the copy
//! runs beside it; its own memory is given back after the use. Where codecs have a lane of their
//! own, all of them follow the last use, and this is still the order in which memory is accounted
//! for; when they run is the timing's to find.

mod copies;
mod explicit;
mod snapshots;
mod updates;

use schema::OpId;

use crate::evaluator::Infeasible;
use crate::parts::{
    Donation, Materialised, Packing, Position, Residency, Return, Swap, Treatment, Update, Work,
};
use crate::{Codecs, Model, NO_OP};

use copies::{Departure, is_away_each_time};
use snapshots::{SNAPSHOTS, Snapshot};

pub use explicit::{Step, StepError, StepProblem};

/// Where a tensor is: here, nowhere, in the compressed form of a packing (with this bit set), or
/// else on the host since a departure.
pub(crate) const RESIDENT: u32 = u32::MAX;
pub(crate) const GONE: u32 = u32::MAX - 1;
/// As [`GONE`], and when it is run again for another tensor's sake it does not stay.
pub(crate) const GONE_AGAIN: u32 = u32::MAX - 2;
pub(crate) const SMALL: u32 = 1 << 31;

/// Whether a tensor must be made again before it can be used.
pub(crate) fn is_gone(state: u32) -> bool {
    state == GONE || state == GONE_AGAIN
}

/// Whether a tensor is there in a compressed form alone.
pub(crate) fn is_small(state: u32) -> bool {
    state != RESIDENT && !is_gone(state) && state & SMALL != 0
}

/// What a position does to device memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moves {
    /// Come to be when it starts: outputs and workspace.
    pub allocates: u64,
    /// Are given back when it ends.
    pub gives_back: u64,
    /// Are swapped back in for it.
    pub copied_in: u64,
    /// Are swapped out after it.
    pub copied_out: u64,
}

/// The sequence of one set of decisions, and the room in which it is built.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub positions: Vec<Position>,
    /// What each position does to memory.
    pub moves: Vec<Moves>,
    /// Bytes that are on the device at a position, prefetches and pending copies left aside.
    pub load: Vec<u64>,
    pub swaps: Vec<Swap>,
    /// In the order in which tensors left as themselves.
    departures: Vec<Departure>,
    pub packings: Vec<Packing>,
    /// The positions of codecs, in their order.
    pub codec_positions: Vec<u32>,
    /// In the order in which they are needed.
    pub returns: Vec<Return>,
    pub donations: Vec<Donation>,
    /// What the host's processor runs, in order, and the swaps whose host buffers that works on.
    pub updates: Vec<Update>,
    pub updated: Vec<u32>,
    /// Only while recording.
    pub residencies: Vec<Residency>,
    pub recompute_ns: u64,
    pub codec_ns: u64,
    /// The position up to which the last build found everything as it was.
    pub resumed_at: usize,
    carry: u64,
    peak: (u64, u32),
    pub(crate) recording: bool,
    /// Compressed forms that leave are made before the last use, if that only reads the tensor.
    pub early_codecs: bool,
    /// What has been copied out stays on the host.
    copies_stay: bool,
    /// The op that is to run next for the first time.
    due: u32,
    pub(crate) state: Vec<u32>,
    pub(crate) last_position: Vec<u32>,
    first_position: Vec<u32>,
    /// The last swap of each tensor as itself, perhaps of an earlier build.
    copied_by: Vec<u32>,
    origin: Vec<Materialised>,
    /// What goes when the burst is over, and the state that it had before.
    burst: Vec<(u32, u32)>,
    stack: Vec<u32>,
    snapshots: Vec<Snapshot>,
    valid_snapshots: usize,
}

impl Sequence {
    pub fn new(model: &Model, copies_stay: bool) -> Self {
        let tensors = model.tensors();
        Self {
            positions: Vec::new(),
            moves: Vec::new(),
            load: Vec::new(),
            swaps: Vec::new(),
            departures: Vec::new(),
            packings: Vec::new(),
            codec_positions: Vec::new(),
            returns: Vec::new(),
            donations: Vec::new(),
            updates: Vec::new(),
            updated: Vec::new(),
            residencies: Vec::new(),
            recompute_ns: 0,
            codec_ns: 0,
            resumed_at: 0,
            carry: 0,
            peak: (0, 0),
            recording: false,
            early_codecs: false,
            copies_stay,
            due: 0,
            state: vec![GONE; tensors],
            last_position: vec![0; tensors],
            first_position: vec![0; tensors],
            copied_by: vec![u32::MAX; tensors],
            origin: vec![Materialised::AtStart; tensors],
            burst: Vec::new(),
            stack: Vec::new(),
            snapshots: vec![Snapshot::default(); SNAPSHOTS],
            valid_snapshots: 0,
        }
    }

    /// Builds the sequence. Decisions for gaps that begin after an op before `unchanged_until` are
    /// those of the last build, whether or not that came to an end. [`Self::resumed_at`] then is
    /// the position from which on anything may differ.
    pub fn build(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        choices: &[Treatment],
        unchanged_until: usize,
        recording: bool,
    ) -> Result<(), Infeasible> {
        self.recording = recording;
        let first_op =
            if recording { self.restart(model) } else { self.resume(model, unchanged_until) };
        self.resumed_at = self.positions.len();
        let spacing = (model.ops() / SNAPSHOTS).max(16);
        for op in first_op..model.ops() {
            if !recording && op % spacing == 0 && op / spacing == self.valid_snapshots {
                self.save(op);
            }
            self.run(model, codecs, choices, op)?;
        }
        self.end(model)
    }

    /// The largest load, and the position that has it.
    pub fn peak(&self) -> (u64, u32) {
        self.peak
    }

    /// Whether compute runs one op after the other and awaits neither copies nor codecs.
    pub fn is_compute_alone(&self) -> bool {
        self.swaps.is_empty() && self.packings.is_empty() && self.updates.is_empty()
    }

    fn run(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        choices: &[Treatment],
        op: usize,
    ) -> Result<(), Infeasible> {
        let begin = self.positions.len();
        for tensor in model.reads.get(op) {
            if is_gone(self.state[*tensor as usize]) {
                self.bring_back(model, *tensor, op as u32)?;
            }
        }
        if model.time_there(op).is_some() {
            return self.update_there(model, op, begin);
        }
        let packed = self.packings.len();
        if self.early_codecs && !codecs.is_empty() {
            self.pack_before(model, codecs, choices, op)?;
        }
        let position = self.emit(model, op as u32, false, op as u32);
        self.end_burst(model);
        self.leave_packed(model, packed, position);
        for gap in model.gaps_after(op) {
            let tensor = model.gaps()[gap].tensor.0;
            match choices[gap] {
                Treatment::Keep => {}
                Treatment::Recompute => self.drop_tensor(model, tensor),
                Treatment::RecomputeEachTime => {
                    self.drop_tensor(model, tensor);
                    self.state[tensor as usize] = GONE_AGAIN;
                }
                Treatment::SwapCompressed(_) | Treatment::Compress(_) => {}
                swap @ (Treatment::Swap
                | Treatment::SwapEachTime
                | Treatment::SwapAtNoCost
                | Treatment::SwapCompressedOnHost(_)) => {
                    self.swap(model, codecs, tensor, swap, position)?;
                }
            }
        }
        for tensor in model.dies_after.get(op) {
            self.drop_tensor(model, *tensor);
        }
        for tensor in model.goes_home_after.get(op) {
            self.go_home(model, *tensor);
        }
        // Codecs run when all else has left: the copies of compressed forms must not queue before
        // those of tensors whose memory the codecs may wait for.
        let gaps = if codecs.is_empty() { 0..0 } else { model.gaps_after(op) };
        for gap in gaps {
            let tensor = model.gaps()[gap].tensor.0;
            let (codec, swapped) = match choices[gap] {
                Treatment::SwapCompressed(_) if self.packs_before(model, tensor, op) => continue,
                Treatment::SwapCompressed(codec) => (codec, true),
                Treatment::Compress(codec) => (codec, false),
                _ => continue,
            };
            self.pack(model, codecs, tensor, (codec, swapped), op as u32)?;
        }
        self.carry_load(begin);
        Ok(())
    }

    /// The position at which the iteration ends: whatever outlives it is there.
    fn end(&mut self, model: &Model) -> Result<(), Infeasible> {
        let begin = self.positions.len();
        let end = model.ops() as u32;
        for tensor in &model.outliving {
            if is_gone(self.state[*tensor as usize]) {
                self.bring_back(model, *tensor, end)?;
            }
        }
        if !self.packings.is_empty() {
            for tensor in &model.outliving {
                self.unpack(model, *tensor, end - 1);
            }
        }
        let position = self.push_position(NO_OP, Work::Run);
        for tensor in &model.outliving {
            self.use_at(model, *tensor, position);
        }
        self.end_burst(model);
        self.carry_load(begin);
        if self.recording {
            for tensor in &model.outliving {
                self.close(*tensor, None);
            }
        }
        Ok(())
    }

    /// Runs again what is needed to have a tensor before an op.
    fn bring_back(&mut self, model: &Model, tensor: u32, before: u32) -> Result<(), Infeasible> {
        let limit = 24 * model.ops() + 1024 + 2 * self.packings.len();
        self.stack.push(tensor);
        while let Some(&wanted) = self.stack.last() {
            let op = model.remade_by[wanted as usize];
            if op == NO_OP || before > model.rerun_until[op as usize] {
                return Err(Infeasible::NotRerunnable { tensor: schema::TensorId(wanted) });
            }
            let missing = (model.reads_again.get(op as usize).iter())
                .find(|input| is_gone(self.state[**input as usize]));
            match missing {
                Some(input) => self.stack.push(*input),
                None => {
                    self.stack.pop();
                    // Another output of the same op may have brought it back already.
                    if is_gone(self.state[wanted as usize]) {
                        self.emit(model, op, true, before);
                        self.recompute_ns += model.recompute[op as usize];
                    }
                }
            }
            if self.positions.len() > limit {
                return Err(Infeasible::TooManyRecomputations { before: OpId(before) });
            }
        }
        Ok(())
    }

    pub(crate) fn push_position(&mut self, op: u32, work: Work) -> u32 {
        let position = self.positions.len() as u32;
        self.positions.push(Position { op, work });
        self.moves.push(Moves::default());
        position
    }

    /// Puts one run of an op, whose inputs are all on the device or the host, into the sequence.
    fn emit(&mut self, model: &Model, op: u32, again: bool, before: u32) -> u32 {
        let (reads, writes) = match again {
            true => (&model.reads_again, &model.writes_again),
            false => (&model.reads, &model.writes),
        };
        if !self.packings.is_empty() {
            for tensor in reads.get(op as usize) {
                self.unpack(model, *tensor, op);
            }
        }
        let position = self.push_position(op, if again { Work::Again } else { Work::Run });
        if !again {
            self.due = op + 1;
        }
        for tensor in reads.get(op as usize) {
            let state = self.state[*tensor as usize];
            self.use_at(model, *tensor, position);
            if again && is_away_each_time(state) && !model.uses(before, *tensor) {
                self.burst.push((*tensor, state));
            }
        }
        let workspace = model.workspace[op as usize];
        let mut allocates = workspace;
        let mut gives_back = workspace;
        for &tensor in writes.get(op as usize) {
            let bytes = model.bytes[tensor as usize];
            allocates += bytes;
            let state = self.state[tensor as usize];
            if again && !is_gone(state) {
                // It is there, or on its way: the second copy is thrown away.
                gives_back += bytes;
                if self.recording {
                    self.residencies.push(Residency {
                        tensor,
                        first: position,
                        last: position,
                        origin: Materialised::Written,
                        copied_out: None,
                        small: None,
                    });
                }
                continue;
            }
            self.open(tensor, position, Materialised::Written);
            let is_dead = || model.last_use[tensor as usize] < before;
            let is_passing = || state == GONE_AGAIN && !model.uses(before, tensor);
            if again && (is_dead() || is_passing()) {
                self.burst.push((tensor, state));
            }
        }
        let moves = &mut self.moves[position as usize];
        moves.allocates += allocates;
        moves.gives_back += gives_back;
        position
    }

    /// Whether a tensor that leaves in its compressed form after an op is compressed before it.
    pub(crate) fn packs_before(&self, model: &Model, tensor: u32, op: usize) -> bool {
        self.early_codecs && !model.alters(op as u32, tensor)
    }

    pub(crate) fn open(&mut self, tensor: u32, position: u32, origin: Materialised) {
        let tensor = tensor as usize;
        self.state[tensor] = RESIDENT;
        self.last_position[tensor] = position;
        if self.recording {
            self.first_position[tensor] = position;
            self.origin[tensor] = origin;
        }
    }

    pub(crate) fn close(&mut self, tensor: u32, copied_out: Option<u32>) {
        if self.recording {
            self.residencies.push(Residency {
                tensor,
                first: self.first_position[tensor as usize],
                last: self.last_position[tensor as usize],
                origin: self.origin[tensor as usize],
                copied_out,
                small: None,
            });
        }
    }

    /// A tensor leaves with its last use, and hands its memory on where the op allows that.
    fn drop_tensor(&mut self, model: &Model, tensor: u32) {
        self.close(tensor, None);
        self.state[tensor as usize] = GONE;
        let position = self.last_position[tensor as usize];
        let mut bytes = model.bytes[tensor as usize];
        let Position { op, work } = self.positions[position as usize];
        let is_made =
            |output| work != Work::Again || model.writes_again.get(op as usize).contains(output);
        for pair in model.in_place.get(op as usize).chunks_exact(2) {
            if pair[0] == tensor && is_made(&pair[1]) {
                let shared = bytes.min(model.bytes[pair[1] as usize]);
                self.moves[position as usize].allocates -= shared;
                bytes -= shared;
                self.donations.push(Donation { position, input: tensor, output: pair[1] });
            }
        }
        self.moves[position as usize].gives_back += bytes;
    }

    fn end_burst(&mut self, model: &Model) {
        while let Some((tensor, state)) = self.burst.pop() {
            let left_after = self.last_position[tensor as usize];
            self.drop_tensor(model, tensor);
            match is_gone(state) {
                true => self.state[tensor as usize] = state,
                false => self.depart_again(tensor, state, left_after),
            }
        }
    }

    /// Adds up the load of the positions from `begin` on, whose memory is now known.
    fn carry_load(&mut self, begin: usize) {
        for position in begin..self.positions.len() {
            let moves = self.moves[position];
            let load = self.carry + moves.copied_in + moves.allocates;
            self.load.push(load);
            if load > self.peak.0 {
                self.peak = (load, position as u32);
            }
            self.carry = load - moves.gives_back - moves.copied_out;
        }
    }
}
