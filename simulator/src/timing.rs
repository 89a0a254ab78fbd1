//! When the runs and copies of a sequence happen, with live memory accounting.
//!
//! This is the reference timeline from which a plan is lowered. Compute runs its positions in
//! order; each waits for the swaps that it needs to be back and for memory. Copies out queue in
//! the order in which their tensors are done with, copies in in the order in which they are
//! needed. A copy in starts early only where it fits beside everything that will be on the device
//! until it is needed, so that no wait is for ever: whatever compute waits for is a copy that
//! nothing holds up. Codecs are runs among the others, or have a [lane of their
//! own](crate::codec_lane).

use schema::{Lane, OpId};

use crate::codec_lane::{Leads, awaits_codec, is_compressed};
use crate::copy_times::CopyTimes;
use crate::evaluator::Infeasible;
use crate::lanes::{Lanes, Speeds};
use crate::parts::{Position, Return, Work};
use crate::policy::{OffloadStart, Policy, PrefetchGate};
use crate::sequence::Sequence;
use crate::{CodecLane, Codecs, Model, NO_OP, Profile};

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
pub(crate) struct State {
    pub now: u64,
    pub lanes: Lanes,
    pub live: u64,
    pub peak: u64,
    pub host: u64,
    pub host_peak: u64,
    /// The next position of compute to start, and the first that has not ended.
    next: usize,
    pub ended: usize,
    /// When compute was last busy.
    busy_until: u64,
    /// How many codecs have started and ended on a lane of their own.
    pub codecs_started: usize,
    pub codecs_ended: usize,
    outs_started: usize,
    outs_ended: usize,
    backs_started: usize,
    pub backs_ended: usize,
    updates_started: usize,
    updates_ended: usize,
    /// Copies out whose tensor has gone: the copy has ended, and so has the last run that reads it.
    outs_gone: usize,
    stall: u64,
    pub event: u32,
    /// Copies that had been started when the latest run started, for synchronous policies.
    outs_to_await: usize,
    backs_to_await: usize,
}

/// The timing of one sequence, and the room in which it is found.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    policy: Policy,
    pub budget: u64,
    host_budget: u64,
    pub speeds: Speeds,
    /// Codecs have a lane of their own.
    pub codec_lane: bool,
    pub state: State,
    /// The sequence's load, with the copies in that started early.
    pub load: Profile,
    /// The first position at which the next copy in fits, once that is known.
    fits_from: Option<usize>,
    /// When codecs of a lane of their own start.
    pub leads: Leads,
    snapshots: Vec<(usize, State)>,
    /// Last position before each that runs a convolution.
    convolution_before: Vec<u32>,
    pub runs: Vec<Span>,
    pub outs: Vec<Span>,
    pub backs: Vec<Span>,
    pub updates: Vec<Span>,
    /// The last return of each swap, after which the host does without.
    last_back: Vec<u32>,
}

impl Timing {
    pub fn new(policy: Policy, budget: u64, host_budget: u64, speeds: Speeds) -> Self {
        Self {
            policy,
            budget,
            host_budget,
            speeds,
            codec_lane: false,
            state: State::new(speeds),
            load: Profile::default(),
            fits_from: None,
            leads: Leads::default(),
            snapshots: Vec::new(),
            convolution_before: Vec::new(),
            runs: Vec::new(),
            outs: Vec::new(),
            backs: Vec::new(),
            updates: Vec::new(),
            last_back: Vec::new(),
        }
    }

    /// Gives codecs a lane of their own, before the first run.
    pub fn set_codec_lane(&mut self, lane: CodecLane) {
        self.codec_lane = true;
        self.speeds.beside_codec_permille = lane.beside_codec_permille;
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
        self.restore(model, sequence, unchanged_until);
        loop {
            self.start_run(model, sequence);
            self.start_out(copies, codecs, sequence);
            self.start_codec(model, sequence);
            self.start_back(copies, codecs, sequence)?;
            self.start_update(model, sequence);
            let Some((end, lane)) = self.state.lanes.next_end() else { break };
            self.state.now = end;
            self.state.lanes.finish(lane, end);
            self.state.event += 1;
            match lane {
                Lane::Compute => self.end_run(model, sequence),
                Lane::D2h => self.end_out(sequence),
                Lane::H2d => self.end_back(sequence),
                Lane::Codec => self.end_codec(model, sequence),
                Lane::Host => self.end_update(sequence),
                // What runs on the net is timed among the ops of the device.
                Lane::Net => {}
            }
        }
        debug_assert_eq!(self.state.ended, sequence.positions.len(), "no wait is for ever");
        debug_assert_eq!(self.state.updates_ended, sequence.updates.len());
        debug_assert!(
            !self.codec_lane || self.state.codecs_ended == sequence.codec_positions.len()
        );
        if self.state.host_peak > self.host_budget {
            return Err(Infeasible::HostMemory { needed: schema::Bytes(self.state.host_peak) });
        }
        Ok(())
    }

    fn restore(&mut self, model: &Model, sequence: &Sequence, unchanged_until: usize) {
        if self.codec_lane {
            self.leads.find(model, sequence);
        }
        // A snapshot serves if it lies before the change.
        let serves = |(position, state): &(usize, State)| {
            *position <= unchanged_until && self.is_of_the_past(state, sequence)
        };
        let kept = self.snapshots.partition_point(serves);
        self.snapshots.truncate(kept);
        self.state = match self.snapshots.last() {
            Some((_, state)) => state.clone(),
            None => State::new(self.speeds),
        };
        if kept == 0 {
            self.state.live = model.at_start();
            self.state.peak = self.state.live;
            // What begins on the host is there without a copy.
            let homes = model.homes.len();
            self.state.outs_started = homes;
            (self.state.outs_ended, self.state.outs_gone) = (homes, homes);
            self.state.host = sequence.swaps[..homes].iter().map(|swap| swap.host_bytes).sum();
            self.state.host_peak = self.state.host;
        }
        self.load.reset(&sequence.load);
        self.fits_from = None;
        self.runs.resize(sequence.positions.len(), Span::default());
        self.outs.resize(sequence.swaps.len(), Span::default());
        self.backs.resize(sequence.returns.len(), Span::default());
        self.updates.resize(sequence.updates.len(), Span::default());
        self.last_back.resize(sequence.swaps.len(), 0);
        for (index, back) in sequence.returns.iter().enumerate() {
            self.last_back[back.swap as usize] = index as u32;
        }
        // What an update uses last is there until then.
        for update in &sequence.updates {
            for swap in sequence.swaps_of(update) {
                let tensor = sequence.swaps[*swap as usize].tensor as usize;
                if model.last_use[tensor] == update.op {
                    self.last_back[*swap as usize] = u32::MAX;
                }
            }
        }
        if matches!(
            self.policy.prefetch,
            PrefetchGate::WithPrecedingConvolution | PrefetchGate::FromPrecedingConvolution
        ) {
            self.find_convolutions(model, sequence);
        }
        self.skip_codecs(sequence);
    }

    /// Whether what a state holds rests on nothing that comes later in the sequence: neither the
    /// first copy in nor the first decompression could have been looked at.
    fn is_of_the_past(&self, state: &State, sequence: &Sequence) -> bool {
        let first = sequence.returns.first();
        // A copy out that starts early is of a tensor that leaves later.
        (self.policy.offload != OffloadStart::OnceMade || sequence.swaps.is_empty())
            && first.is_none_or(|first| first.swap as usize >= state.outs_ended)
            && (!self.codec_lane || self.leads.first_decompression > state.codecs_started)
    }

    /// Of a layer's backward ops all count: a copy may start with the first of them.
    fn find_convolutions(&mut self, model: &Model, sequence: &Sequence) {
        self.convolution_before.clear();
        let mut last = 0;
        for (position, run) in sequence.positions.iter().enumerate() {
            if position > 0 && same_layer(model, sequence, position - 1) {
                let before_layer = self.convolution_before[position - 1];
                self.convolution_before.push(before_layer);
                continue;
            }
            self.convolution_before.push(last);
            let opens = run.work == Work::Run && model.above == Some(OpId(run.op));
            if opens || run.runs_op() && model.is_convolution[run.op as usize] {
                last = position as u32;
            }
        }
    }

    fn start_run(&mut self, model: &Model, sequence: &Sequence) {
        if !self.state.lanes.is_idle(Lane::Compute) {
            return;
        }
        let set_aside = self.set_aside(sequence);
        let state = &mut self.state;
        let Some(run) = sequence.positions.get(state.next) else { return };
        let position = state.next;
        let is_back = (sequence.returns.get(state.backs_ended))
            .is_none_or(|next| next.before as usize > position);
        let synchronised = !self.policy.synchronous
            || (state.outs_ended >= state.outs_to_await
                && state.backs_ended >= state.backs_to_await);
        let allocates = sequence.moves[position].allocates;
        if !is_back || !synchronised {
            return;
        }
        if self.codec_lane && awaits_codec(state, sequence, position) {
            return;
        }
        if !state.fits(allocates + set_aside, self.budget) {
            return;
        }
        if let Work::Compress(id) = run.work {
            state.host += sequence.packings[id as usize].host_bytes(model);
            state.host_peak = state.host_peak.max(state.host);
        }
        let duration = run_time(model, sequence, *run);
        if position > 0 {
            state.stall += state.now - state.busy_until;
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
        state.ended = position + 1;
        state.busy_until = state.now;
        state.live -= sequence.moves[position].gives_back;
        state.leave(sequence);
        // A layer's ops do not wait for the copies that run beside them.
        if !same_layer(model, sequence, position) {
            state.outs_to_await = state.outs_started;
            state.backs_to_await = state.backs_started;
        }
        let last = self.snapshots.last().map_or(0, |(position, _)| *position);
        if position + 1 >= last + SPACING && self.is_of_the_past(&self.state, sequence) {
            self.snapshots.push((position + 1, self.state.clone()));
        }
        self.skip_codecs(sequence);
    }

    /// Where codecs have a lane of their own, compute goes on to the next position that it runs.
    fn skip_codecs(&mut self, sequence: &Sequence) {
        if !self.codec_lane {
            return;
        }
        let state = &mut self.state;
        while sequence.positions.get(state.ended).is_some_and(|run| run.is_codec()) {
            state.ended += 1;
        }
        state.next = state.ended;
    }

    fn start_out(&mut self, copies: &CopyTimes, codecs: &Codecs, sequence: &Sequence) {
        let state = &mut self.state;
        let Some(swap) = sequence.swaps.get(state.outs_started) else { return };
        let after = swap.out_after as usize;
        let has_ended = |position: usize| {
            position < state.ended && (!self.codec_lane || is_compressed(state, sequence, position))
        };
        let may_start = match self.policy.offload {
            OffloadStart::OnceMade if swap.ready != swap.out_after => {
                (swap.ready as usize).checked_sub(1).is_none_or(has_ended)
            }
            // It is there when the run starts that uses it.
            OffloadStart::OnceMade | OffloadStart::WithLastUse if swap.ready <= swap.out_after => {
                after < state.next
            }
            _ => has_ended(after),
        };
        let was_read = swap.home.is_none_or(|home| home.updates as usize <= state.updates_ended);
        if !state.lanes.is_idle(Lane::D2h) || !may_start || !was_read {
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
        let span = &mut self.outs[state.outs_ended];
        (span.end, span.end_event) = (state.now, state.event);
        state.outs_ended += 1;
        state.leave(sequence);
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
        if self.state.ended < self.gate_of(sequence, next)
            || self.state.updates_ended < next.updates as usize
        {
            return Ok(());
        }
        let swap = &sequence.swaps[swap];
        let bytes = swap.bytes;
        let here = self.here(sequence);
        let fits_from = match self.fits_from {
            Some(position) => position,
            None => self.find_fit(here, before, bytes),
        };
        if here < fits_from {
            if self.policy.prefetch == PrefetchGate::WithPrecedingConvolution {
                let op = sequence.positions[fits_from - 1].op;
                let needed = schema::Bytes(self.load.at(fits_from - 1) as u64 + bytes);
                return Err(Infeasible::Prefetch { needed, op: OpId(op) });
            }
            return Ok(());
        }
        if self.state.live + bytes + self.set_aside(sequence) > self.budget {
            return Ok(());
        }
        self.load.add(here..before, bytes as i64);
        self.forget_fits();
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
        let swap = sequence.returns[state.backs_ended].swap as usize;
        // A home on the host is there to the end.
        let of = &sequence.swaps[swap];
        if of.home.is_none() && self.last_back[swap] as usize == state.backs_ended {
            state.host -= of.host_bytes;
        }
        state.backs_ended += 1;
    }

    fn start_update(&mut self, model: &Model, sequence: &Sequence) {
        let state = &mut self.state;
        let Some(update) = sequence.updates.get(state.updates_started) else { return };
        let is_due =
            (update.after as usize) < state.ended && update.outs as usize <= state.outs_ended;
        if !is_due || !state.lanes.is_idle(Lane::Host) {
            return;
        }
        let time = model.time_there(update.op as usize).unwrap_or(0);
        state.lanes.start(Lane::Host, state.now, time);
        let span = &mut self.updates[state.updates_started];
        (span.start, span.start_event) = (state.now, state.event);
        state.event += 1;
        state.updates_started += 1;
    }

    fn end_update(&mut self, sequence: &Sequence) {
        let state = &mut self.state;
        let span = &mut self.updates[state.updates_ended];
        (span.end, span.end_event) = (state.now, state.event);
        state.host -= sequence.updates[state.updates_ended].gives_back;
        state.updates_ended += 1;
    }

    /// The position that runs now, or the next one while compute is idle; no further than the
    /// next codec, whose memory nothing may take that starts early.
    pub fn here(&self, sequence: &Sequence) -> usize {
        if !self.codec_lane {
            return self.state.ended;
        }
        let codec = sequence.codec_positions.get(self.state.codecs_started);
        codec.map_or(self.state.ended, |codec| self.state.ended.min(*codec as usize))
    }

    /// The load has changed: what fits from where is to be found anew.
    pub fn forget_fits(&mut self) {
        self.fits_from = None;
        self.leads.fits_from = None;
    }

    /// The last position of compute before a position.
    pub fn run_before(&self, sequence: &Sequence, position: usize) -> Option<usize> {
        let mut before = position.checked_sub(1)?;
        while self.codec_lane && sequence.positions[before].is_codec() {
            before = before.checked_sub(1)?;
        }
        Some(before)
    }

    /// How many positions must have ended before a copy in for position `before` may start.
    pub fn gate(&self, sequence: &Sequence, before: usize) -> usize {
        match self.policy.prefetch {
            PrefetchGate::AsMemoryAllows => 0,
            PrefetchGate::WithPrecedingOp => self.run_before(sequence, before).unwrap_or(0),
            PrefetchGate::WithPrecedingConvolution | PrefetchGate::FromPrecedingConvolution => {
                self.convolution_before[before] as usize
            }
        }
    }

    /// How many positions must have ended before a copy in may start: the policy's, and where what
    /// it brings back left without a copy, all until then.
    pub fn gate_of(&self, sequence: &Sequence, back: &Return) -> usize {
        let gate = self.gate(sequence, back.before as usize);
        let swap = &sequence.swaps[back.swap as usize];
        let was_there = swap.home.is_some_and(|home| home.at_start);
        let left_with_copy = swap.out_after == back.left_after;
        match left_with_copy && (was_there || self.policy.offload != OffloadStart::OnceMade) {
            true => gate,
            false => gate.max(back.left_after as usize + 1),
        }
    }

    /// The first position, from `here` on, from which `bytes` fit until position `before`.
    fn find_fit(&mut self, here: usize, before: usize, bytes: u64) -> usize {
        let fits_from = first_fit(&self.load, self.budget, (here, before), bytes);
        self.fits_from = Some(fits_from);
        fits_from
    }
}

/// Whether a position and the next run ops of the same layer.
pub(crate) fn same_layer(model: &Model, sequence: &Sequence, position: usize) -> bool {
    let op = |position: usize| {
        let run = sequence.positions.get(position)?;
        (run.work == Work::Run && run.op != NO_OP).then(|| model.layer(OpId(run.op)))
    };
    op(position).is_some_and(|layer| op(position + 1) == Some(layer))
}

/// The first position of a range from which `bytes` fit until its end.
pub(crate) fn first_fit(
    load: &Profile,
    budget: u64,
    (here, before): (usize, usize),
    bytes: u64,
) -> usize {
    let room = budget.saturating_sub(bytes).min(i64::MAX as u64) as i64;
    load.last_above(here..before, room).map_or(here, |full| full + 1)
}

/// How long a run takes, alone on the machine.
pub(crate) fn run_time(model: &Model, sequence: &Sequence, run: Position) -> u64 {
    match run.work {
        Work::Run if run.op == NO_OP => 0,
        Work::Run => model.duration[run.op as usize],
        Work::Again => model.recompute[run.op as usize],
        Work::Compress(id) => sequence.packings[id as usize].cost.compress.0,
        Work::Decompress(id) => sequence.packings[id as usize].cost.decompress.0,
    }
}

impl State {
    /// What has been copied out and read for the last time gives its memory back.
    fn leave(&mut self, sequence: &Sequence) {
        while self.outs_gone < self.outs_ended {
            let swap = &sequence.swaps[self.outs_gone];
            if swap.out_after as usize >= self.ended {
                return;
            }
            self.live -= swap.bytes;
            self.outs_gone += 1;
        }
    }

    /// Whether so many bytes more fit a budget.
    pub fn fits(&self, bytes: u64, budget: u64) -> bool {
        self.live + bytes <= budget
    }

    fn new(speeds: Speeds) -> Self {
        Self {
            now: 0,
            lanes: Lanes::new(speeds),
            live: 0,
            peak: 0,
            host: 0,
            host_peak: 0,
            next: 0,
            ended: 0,
            busy_until: 0,
            codecs_started: 0,
            codecs_ended: 0,
            outs_started: 0,
            outs_ended: 0,
            backs_started: 0,
            backs_ended: 0,
            updates_started: 0,
            updates_ended: 0,
            outs_gone: 0,
            stall: 0,
            event: 0,
            outs_to_await: 0,
            backs_to_await: 0,
        }
    }
}
