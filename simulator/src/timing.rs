//! When the runs and copies of a sequence happen, with live memory accounting.
//!
//! This is the reference timeline from which a plan is lowered. Compute runs its positions in
//! order; each waits for the swaps that it needs to be back and for memory. Copies out queue in
//! the order in which their tensors are done with, copies in in the order in which they are
//! needed. A copy in starts early only where it fits beside everything that will be on the device
//! until it is needed, so that no wait is for ever: whatever compute waits for is a copy that
//! nothing holds up. Codecs are runs among the others.

use schema::{Lane, OpId};

use crate::evaluator::Infeasible;
use crate::lanes::Lanes;
use crate::parts::{Swap, Work};
use crate::sequence::Sequence;
use crate::{Codecs, Model, NO_OP};

/// When copies start: the part of a method that is not a decision about a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// When a copy out may start.
    pub offload: OffloadStart,
    /// When a copy in may start.
    pub prefetch: PrefetchGate,
    /// Each run waits for the copies that were started with the run before it, as in vDNN, which
    /// synchronises compute and copies after every layer.
    pub synchronous: bool,
}

impl Policy {
    /// PooCH's (section 4.3): out after the last use, in as early as memory allows.
    pub const EARLY: Self = Self {
        offload: OffloadStart::AfterLastUse,
        prefetch: PrefetchGate::AsMemoryAllows,
        synchronous: false,
    };
}

/// When a copy out may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffloadStart {
    /// When the last use before the gap has ended.
    AfterLastUse,
    /// With the last use before the gap, where that only reads the tensor.
    WithLastUse,
}

/// When a copy in may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefetchGate {
    /// As soon as there is room for it until it is needed (PooCH 4.3).
    AsMemoryAllows,
    /// With the run before the one that needs it, if there is room by then, and else when there
    /// is (PooCH's "without scheduling").
    WithPrecedingOp,
    /// With the convolution before the run that needs it, whether there is room or not: too
    /// little room is a failure (SuperNeurons, as PooCH 5.2 states it).
    WithPrecedingConvolution,
    /// With the convolution before the run that needs it, or as soon after as there is room
    /// (vDNN's search window).
    FromPrecedingConvolution,
}

/// What a copy costs, per tensor, and per small form by codec and tensor.
#[derive(Debug, Clone)]
pub(crate) struct CopyTimes {
    pub out: Vec<u64>,
    pub back: Vec<u64>,
    pub small_out: Vec<u64>,
    pub small_back: Vec<u64>,
    pub both_directions_permille: u16,
}

/// Start and end of one action, in time and in the order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    pub start_event: u32,
    pub end_event: u32,
}

/// Snapshots are taken while no copy in has been looked at; one every so many positions.
const SPACING: usize = 32;

#[derive(Debug, Clone)]
struct State {
    now: u64,
    lanes: Lanes,
    live: u64,
    peak: u64,
    host: u64,
    host_peak: u64,
    /// The next position to start, and how many have ended.
    next: usize,
    ended: usize,
    outs_started: usize,
    outs_ended: usize,
    backs_started: usize,
    backs_ended: usize,
    /// Bytes whose copy out has ended while the run that reads them goes on.
    deferred: u64,
    stall: u64,
    event: u32,
    /// Copies that had been started when the latest run started, for synchronous policies.
    outs_to_await: usize,
    backs_to_await: usize,
}

/// The timing of one sequence, and the room in which it is found.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    policy: Policy,
    budget: u64,
    host_budget: u64,
    state: State,
    /// The sequence's load, with the copies in that started early.
    load: Vec<u64>,
    /// The first position at which the next copy in fits, once that is known.
    fits_from: Option<usize>,
    snapshots: Vec<(usize, State)>,
    /// Last position before each that runs a convolution.
    convolution_before: Vec<u32>,
    pub runs: Vec<Span>,
    pub outs: Vec<Span>,
    pub backs: Vec<Span>,
}

impl Timing {
    pub fn new(policy: Policy, budget: u64, host_budget: u64, permille: u16) -> Self {
        Self {
            policy,
            budget,
            host_budget,
            state: State::new(permille),
            load: Vec::new(),
            fits_from: None,
            snapshots: Vec::new(),
            convolution_before: Vec::new(),
            runs: Vec::new(),
            outs: Vec::new(),
            backs: Vec::new(),
        }
    }

    /// Another budget for the next run, which starts from nothing.
    pub fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
        self.snapshots.clear();
    }

    pub fn iteration(&self) -> u64 {
        self.state.now
    }

    pub fn peak(&self) -> u64 {
        self.state.peak
    }

    pub fn host_peak(&self) -> u64 {
        self.state.host_peak
    }

    pub fn stall(&self) -> u64 {
        self.state.stall
    }

    /// Times a sequence of which everything before position `unchanged_until` is as it was in the
    /// last call.
    pub fn run(
        &mut self,
        model: &Model,
        copies: &CopyTimes,
        codecs: &Codecs,
        sequence: &Sequence,
        unchanged_until: usize,
    ) -> Result<(), Infeasible> {
        self.restore(model, copies, sequence, unchanged_until);
        loop {
            self.start_run(model, sequence);
            self.start_out(copies, codecs, sequence);
            self.start_back(copies, codecs, sequence)?;
            let Some((end, lane)) = self.state.lanes.next_end() else { break };
            self.state.now = end;
            self.state.lanes.finish(lane, end);
            self.state.event += 1;
            match lane {
                Lane::Compute => self.end_run(model, sequence),
                Lane::D2h => self.end_out(sequence),
                Lane::H2d => self.end_back(sequence),
            }
        }
        debug_assert_eq!(self.state.ended, sequence.positions.len(), "no wait is for ever");
        if self.state.host_peak > self.host_budget {
            return Err(Infeasible::HostMemory { needed: schema::Bytes(self.state.host_peak) });
        }
        Ok(())
    }

    fn restore(
        &mut self,
        model: &Model,
        copies: &CopyTimes,
        sequence: &Sequence,
        unchanged_until: usize,
    ) {
        let first_back = sequence.returns.first().map(|r| r.swap as usize);
        // A snapshot serves if it lies before the change and if the copy in that now comes first
        // could not have been looked at before it.
        let serves = |(position, state): &(usize, State)| {
            *position <= unchanged_until && first_back.is_none_or(|swap| swap >= state.outs_ended)
        };
        let kept = self.snapshots.partition_point(serves);
        self.snapshots.truncate(kept);
        self.state = match self.snapshots.last() {
            Some((_, state)) => state.clone(),
            None => State::new(copies.both_directions_permille),
        };
        if kept == 0 {
            self.state.live = (model.producer.iter().zip(&model.bytes))
                .filter(|(producer, _)| **producer == NO_OP)
                .map(|(_, bytes)| bytes)
                .sum();
            self.state.peak = self.state.live;
        }
        self.load.clear();
        self.load.extend_from_slice(&sequence.load);
        self.fits_from = None;
        self.runs.resize(sequence.positions.len(), Span::default());
        self.outs.resize(sequence.swaps.len(), Span::default());
        self.backs.resize(sequence.returns.len(), Span::default());
        if matches!(
            self.policy.prefetch,
            PrefetchGate::WithPrecedingConvolution | PrefetchGate::FromPrecedingConvolution
        ) {
            self.find_convolutions(model, sequence);
        }
    }

    fn find_convolutions(&mut self, model: &Model, sequence: &Sequence) {
        self.convolution_before.clear();
        let mut last = 0;
        for (position, run) in sequence.positions.iter().enumerate() {
            self.convolution_before.push(last);
            if run.runs_op() && model.is_convolution[run.op as usize] {
                last = position as u32;
            }
        }
    }

    fn start_run(&mut self, model: &Model, sequence: &Sequence) {
        let state = &mut self.state;
        let Some(run) = sequence.positions.get(state.next) else { return };
        if !state.lanes.is_idle(Lane::Compute) {
            return;
        }
        let position = state.next;
        let is_back = (sequence.returns.get(state.backs_ended))
            .is_none_or(|next| next.before as usize > position);
        let synchronised = !self.policy.synchronous
            || (state.outs_ended >= state.outs_to_await
                && state.backs_ended >= state.backs_to_await);
        let allocates = sequence.allocates[position];
        if !is_back || !synchronised || state.live + allocates > self.budget {
            return;
        }
        let packing = |id: u32| &sequence.packings[id as usize];
        let duration = match run.work {
            Work::Run if run.op == NO_OP => 0,
            Work::Run => model.duration[run.op as usize],
            Work::Again => model.recompute[run.op as usize],
            Work::Compress(id) => {
                state.host += packing(id).host_bytes(model);
                state.host_peak = state.host_peak.max(state.host);
                packing(id).cost.compress.0
            }
            Work::Decompress(id) => packing(id).cost.decompress.0,
        };
        if position > 0 {
            state.stall += state.now - self.runs[position - 1].end;
        }
        state.live += allocates;
        state.peak = state.peak.max(state.live);
        state.lanes.start(Lane::Compute, state.now, duration);
        state.next += 1;
        let span = &mut self.runs[position];
        (span.start, span.start_event) = (state.now, state.event);
        state.event += 1;
    }

    fn end_run(&mut self, model: &Model, sequence: &Sequence) {
        let state = &mut self.state;
        let position = state.next - 1;
        if let Work::Decompress(id) = sequence.positions[position].work {
            state.host -= sequence.packings[id as usize].host_bytes(model);
        }
        let span = &mut self.runs[position];
        (span.end, span.end_event) = (state.now, state.event);
        state.ended += 1;
        state.live -= sequence.gives_back[position] + std::mem::take(&mut state.deferred);
        state.outs_to_await = state.outs_started;
        state.backs_to_await = state.backs_started;
        let last = self.snapshots.last().map_or(0, |(position, _)| *position);
        let no_copy_in_seen =
            (sequence.returns.first()).is_none_or(|first| first.swap as usize >= state.outs_ended);
        if position + 1 >= last + SPACING && no_copy_in_seen {
            self.snapshots.push((position + 1, state.clone()));
        }
    }

    fn start_out(&mut self, copies: &CopyTimes, codecs: &Codecs, sequence: &Sequence) {
        let state = &mut self.state;
        let Some(swap) = sequence.swaps.get(state.outs_started) else { return };
        let after = swap.out_after as usize;
        let may_start = match self.policy.offload {
            OffloadStart::WithLastUse if !swap.made_there => after < state.next,
            _ => after < state.ended,
        };
        if !state.lanes.is_idle(Lane::D2h) || !may_start {
            return;
        }
        state.lanes.start(Lane::D2h, state.now, copies.out(codecs, swap));
        let span = &mut self.outs[state.outs_started];
        (span.start, span.start_event) = (state.now, state.event);
        state.event += 1;
        state.outs_started += 1;
        state.host += swap.host_bytes;
        state.host_peak = state.host_peak.max(state.host);
    }

    fn end_out(&mut self, sequence: &Sequence) {
        let state = &mut self.state;
        let swap = &sequence.swaps[state.outs_ended];
        let span = &mut self.outs[state.outs_ended];
        (span.end, span.end_event) = (state.now, state.event);
        state.outs_ended += 1;
        let bytes = swap.bytes;
        if (swap.out_after as usize) < state.ended {
            state.live -= bytes;
        } else {
            state.deferred += bytes;
        }
    }

    fn start_back(
        &mut self,
        copies: &CopyTimes,
        codecs: &Codecs,
        sequence: &Sequence,
    ) -> Result<(), Infeasible> {
        let Some(next) = sequence.returns.get(self.state.backs_started) else { return Ok(()) };
        let swap = next.swap as usize;
        if !self.state.lanes.is_idle(Lane::H2d) || swap >= self.state.outs_ended {
            return Ok(());
        }
        let before = next.before as usize;
        if self.state.ended < self.gate(before) {
            return Ok(());
        }
        let swap = &sequence.swaps[swap];
        let bytes = swap.bytes;
        let here = self.here();
        let fits_from = match self.fits_from {
            Some(position) => position,
            None => self.find_fit(here, before, bytes),
        };
        if here < fits_from {
            if self.policy.prefetch == PrefetchGate::WithPrecedingConvolution {
                let op = sequence.positions[fits_from - 1].op;
                let needed = schema::Bytes(self.load[fits_from - 1] + bytes);
                return Err(Infeasible::Prefetch { needed, op: OpId(op) });
            }
            return Ok(());
        }
        if self.state.live + bytes > self.budget {
            return Ok(());
        }
        for load in &mut self.load[here.min(before)..before] {
            *load += bytes;
        }
        self.fits_from = None;
        let state = &mut self.state;
        state.live += bytes;
        state.peak = state.peak.max(state.live);
        state.lanes.start(Lane::H2d, state.now, copies.back(codecs, swap));
        let span = &mut self.backs[state.backs_started];
        (span.start, span.start_event) = (state.now, state.event);
        state.event += 1;
        state.backs_started += 1;
        Ok(())
    }

    fn end_back(&mut self, sequence: &Sequence) {
        let state = &mut self.state;
        let span = &mut self.backs[state.backs_ended];
        (span.end, span.end_event) = (state.now, state.event);
        let swap = &sequence.swaps[sequence.returns[state.backs_ended].swap as usize];
        state.host -= swap.host_bytes;
        state.backs_ended += 1;
    }

    /// The position that runs now, or the next one while compute is idle.
    fn here(&self) -> usize {
        self.state.ended
    }

    /// How many positions must have ended before a copy in for position `before` may start.
    pub fn gate(&self, before: usize) -> usize {
        match self.policy.prefetch {
            PrefetchGate::AsMemoryAllows => 0,
            PrefetchGate::WithPrecedingOp => before.saturating_sub(1),
            PrefetchGate::WithPrecedingConvolution | PrefetchGate::FromPrecedingConvolution => {
                self.convolution_before[before] as usize
            }
        }
    }

    /// The first position, from `here` on, from which `bytes` fit until position `before`.
    fn find_fit(&mut self, here: usize, before: usize, bytes: u64) -> usize {
        let room = self.budget.saturating_sub(bytes);
        let window = &self.load[here.min(before)..before];
        let fits_from = window.iter().rposition(|load| *load > room).map_or(here, |i| here + i + 1);
        self.fits_from = Some(fits_from);
        fits_from
    }
}

impl CopyTimes {
    fn out(&self, codecs: &Codecs, swap: &Swap) -> u64 {
        match swap.codec {
            _ if swap.at_no_cost => 0,
            None => self.out[swap.tensor as usize],
            Some(codec) => self.small_out[codecs.index(codec, swap.tensor)],
        }
    }

    fn back(&self, codecs: &Codecs, swap: &Swap) -> u64 {
        match swap.codec {
            _ if swap.at_no_cost => 0,
            None => self.back[swap.tensor as usize],
            Some(codec) => self.small_back[codecs.index(codec, swap.tensor)],
        }
    }
}

impl State {
    fn new(permille: u16) -> Self {
        Self {
            now: 0,
            lanes: Lanes::new(permille),
            live: 0,
            peak: 0,
            host: 0,
            host_peak: 0,
            next: 0,
            ended: 0,
            outs_started: 0,
            outs_ended: 0,
            backs_started: 0,
            backs_ended: 0,
            deferred: 0,
            stall: 0,
            event: 0,
            outs_to_await: 0,
            backs_to_await: 0,
        }
    }
}
