//! Codecs on a lane of their own, beside compute.
//!
//! They run in the order of the sequence, one at a time. A compression starts when the last use of
//! its tensor before the gap has ended and there is room for the compressed form; until then that
//! room is set aside for it, so that nothing which starts before it can hold it up. A decompression
//! starts when its compressed form is there, and so late that it ends just when the tensor is
//! needed: earlier it would only take memory from copies in, of which there are never enough. As
//! them it starts only where its tensor fits beside everything until it is needed.
//!
//! No wait is for ever. A compression waits for ops and compressions before it and for memory,
//! which copies out before it give back; none of these waits for it, nor for what comes after it.
//! A decompression that compute waits for is the first of its lane, and all before it has run; what
//! came in early left room for it, because its position counted as not yet passed.

use crate::Model;
use crate::parts::Work;
use crate::sequence::Sequence;
use crate::timing::{State, Timing, first_fit, run_time};

/// When decompressions are to start, and the room in which that is found.
#[derive(Debug, Clone)]
pub(crate) struct Leads {
    /// For each codec of the sequence: the position of compute with which it may start.
    with: Vec<u32>,
    /// The first decompression among the codecs of the sequence.
    pub first_decompression: usize,
    /// The first position at which the next decompression fits, once that is known.
    pub fits_from: Option<usize>,
    /// The time of compute before each position.
    clock: Vec<u64>,
}

impl Default for Leads {
    fn default() -> Self {
        Self {
            with: Vec::new(),
            first_decompression: usize::MAX,
            fits_from: None,
            clock: Vec::new(),
        }
    }
}

impl Leads {
    /// Finds, from the last decompression to the first, the latest start with which it ends when
    /// it is needed and the next can start in time, were compute never to wait; and what compute
    /// runs then.
    pub fn find(&mut self, model: &Model, sequence: &Sequence) {
        let codecs = &sequence.codec_positions;
        self.fits_from = None;
        self.first_decompression = usize::MAX;
        self.with.clear();
        if codecs.is_empty() {
            return;
        }
        self.clock.clear();
        let mut now = 0;
        for run in &sequence.positions {
            self.clock.push(now);
            now += if run.is_codec() { 0 } else { run_time(model, sequence, *run) };
        }
        self.with.resize(codecs.len(), 0);
        let mut latest = u64::MAX;
        for (index, position) in codecs.iter().enumerate().rev() {
            let position = *position as usize;
            let run = sequence.positions[position];
            if let Work::Decompress(_) = run.work {
                let end = self.clock[position].min(latest);
                latest = end.saturating_sub(run_time(model, sequence, run));
                // There is one: the first position has nothing before it.
                let with = self.clock[..=position].partition_point(|clock| *clock <= latest) - 1;
                self.with[index] = with as u32;
                self.first_decompression = index;
            }
        }
    }

    /// The position of compute with which a codec of the sequence may start.
    pub fn with(&self, codec: usize) -> usize {
        self.with[codec] as usize
    }
}

/// Whether a position of compute needs a tensor that is not decompressed yet. Decompressions come
/// right before the position that needs them.
pub(crate) fn awaits_codec(state: &State, sequence: &Sequence, position: usize) -> bool {
    let before = position.checked_sub(1).map(|before| sequence.positions[before].work);
    matches!(before, Some(Work::Decompress(_))) && !codecs_ended(state, sequence, position)
}

/// Whether a position that may be a compression has ended; others are not looked at here.
pub(crate) fn is_compressed(state: &State, sequence: &Sequence, position: usize) -> bool {
    !sequence.positions[position].is_codec() || codecs_ended(state, sequence, position + 1)
}

/// Whether the compressed form that a decompression needs is on the device.
fn is_back(state: &State, sequence: &Sequence, position: usize) -> bool {
    let own = sequence.returns.partition_point(|back| (back.before as usize) < position);
    let comes_back = sequence.returns.get(own).is_some_and(|back| back.before as usize == position);
    !comes_back || own < state.backs_ended
}

/// Whether all codecs before a position have ended.
fn codecs_ended(state: &State, sequence: &Sequence, before: usize) -> bool {
    let next = sequence.codec_positions.get(state.codecs_ended);
    next.is_none_or(|next| *next as usize >= before)
}

impl Timing {
    /// Room for what compressions that are due and have not started will allocate. Each gives back
    /// more than it allocates before the next starts, so the largest is enough.
    pub(crate) fn set_aside(&self, sequence: &Sequence) -> u64 {
        if !self.codec_lane {
            return 0;
        }
        let is_due = |position: &usize| {
            let is_compression = || matches!(sequence.positions[*position].work, Work::Compress(_));
            *position < self.state.ended && is_compression()
        };
        let waiting = sequence.codec_positions[self.state.codecs_started..].iter();
        let due = waiting.map(|position| *position as usize).take_while(is_due);
        due.map(|position| sequence.moves[position].allocates).max().unwrap_or(0)
    }

    /// Starts the next codec, if it has a lane of its own and can start.
    pub(crate) fn start_codec(&mut self, model: &Model, sequence: &Sequence) {
        if !self.codec_lane || !self.state.lanes.is_idle(schema::Lane::Codec) {
            return;
        }
        let Some(position) = sequence.codec_positions.get(self.state.codecs_started) else {
            return;
        };
        let position = *position as usize;
        let run = sequence.positions[position];
        let allocates = sequence.moves[position].allocates;
        match run.work {
            Work::Compress(id) => {
                let state = &mut self.state;
                if position >= state.ended || !state.fits(allocates, self.budget) {
                    return;
                }
                state.host += sequence.packings[id as usize].host_bytes(model);
                state.host_peak = state.host_peak.max(state.host);
            }
            _ => {
                if !self.decompression_may_start(sequence, position) {
                    return;
                }
                self.hold_early(sequence, position);
            }
        }
        let state = &mut self.state;
        state.live += allocates;
        state.peak = state.peak.max(state.live);
        state.lanes.start(schema::Lane::Codec, state.now, run_time(model, sequence, run));
        let span = &mut self.runs[position];
        (span.start, span.start_event) = (state.now, state.event);
        state.event += 1;
        state.codecs_started += 1;
        self.forget_fits();
    }

    fn decompression_may_start(&mut self, sequence: &Sequence, position: usize) -> bool {
        let state = &self.state;
        if !is_back(state, sequence, position)
            || state.ended < self.leads.with(state.codecs_started)
        {
            return false;
        }
        let (here, bytes) = (self.here(sequence), sequence.moves[position].allocates);
        let find = || first_fit(&self.load, self.budget, (here, position), bytes);
        let fits_from = self.leads.fits_from.unwrap_or_else(find);
        self.leads.fits_from = Some(fits_from);
        here >= fits_from && self.state.live + bytes + self.set_aside(sequence) <= self.budget
    }

    /// From now until its position, the tensor is there, and soon its compressed form is not.
    fn hold_early(&mut self, sequence: &Sequence, position: usize) {
        let here = self.here(sequence).min(position);
        let (tensor, small) =
            (sequence.moves[position].allocates, sequence.moves[position].gives_back);
        self.load.add(here..position, tensor as i64);
        self.load.add(here + 1..position, -(small as i64));
    }

    pub(crate) fn end_codec(&mut self, model: &Model, sequence: &Sequence) {
        let state = &mut self.state;
        let position = sequence.codec_positions[state.codecs_ended] as usize;
        if let Work::Decompress(id) = sequence.positions[position].work {
            state.host -= sequence.packings[id as usize].host_bytes(model);
        }
        let span = &mut self.runs[position];
        (span.end, span.end_event) = (state.now, state.event);
        state.live -= sequence.moves[position].gives_back;
        state.codecs_ended += 1;
    }
}
