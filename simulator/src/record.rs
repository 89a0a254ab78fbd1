//! A timing as a value of its own.

use schema::{Nanos, OpId, TensorId};

use crate::Model;
use crate::evaluator::{Awaited, Outcome, Record, RecordedCopy, RecordedUpdate};
use crate::parts::{Update, Work};
use crate::policy::{OffloadStart, Policy};
use crate::sequence::Sequence;
use crate::timing::{Span, Timing, same_layer};

impl Timing {
    /// Everything about the sequence that was timed last.
    pub(crate) fn record(
        &self,
        outcome: Outcome,
        policy: Policy,
        model: &Model,
        sequence: &Sequence,
    ) -> Record {
        let span = |span: &Span| (Nanos(span.start), Nanos(span.end));
        let events = |span: &Span| (span.start_event, span.end_event);
        let copy = |swap: u32, position: u32, gate: Option<u32>, at: &Span| RecordedCopy {
            swap,
            tensor: TensorId(sequence.swaps[swap as usize].tensor),
            codec: sequence.swaps[swap as usize].codec,
            there: sequence.swaps[swap as usize].there,
            home: sequence.swaps[swap as usize].home,
            position,
            gate,
            span: span(at),
            events: events(at),
        };
        let outs = sequence.swaps.iter().zip(&self.outs).enumerate().map(|(id, (swap, at))| {
            // When the run before so many positions has ended.
            let before = match policy.offload {
                OffloadStart::OnceMade => swap.ready,
                OffloadStart::WithLastUse => swap.ready.max(swap.out_after),
                OffloadStart::AfterLastUse => swap.out_after + 1,
            };
            let gate = match before > swap.out_after {
                true => Some(swap.out_after),
                false => self.run_before(sequence, before as usize).map(|run| run as u32),
            };
            copy(id as u32, swap.out_after, gate, at)
        });
        let backs = sequence.returns.iter().zip(&self.backs).map(|(back, at)| {
            let gate = self.gate_of(sequence, back);
            let gate = self.run_before(sequence, gate).map(|run| run as u32);
            copy(back.swap, back.before, gate, at)
        });
        let mut record = Record {
            outcome,
            positions: sequence.positions.clone(),
            runs: self.runs.iter().map(span).collect(),
            run_events: self.runs.iter().map(events).collect(),
            codec_gates: self.codec_gates(sequence),
            awaited: Vec::new(),
            outs: outs.collect(),
            backs: backs.collect(),
            packings: sequence.packings.clone(),
            residencies: sequence.residencies.clone(),
            updates: self.updates_of(sequence),
            donations: (sequence.donations.iter())
                .map(|d| (d.position, TensorId(d.input), TensorId(d.output)))
                .collect(),
        };
        if policy.synchronous {
            record.awaited = awaited(&record, self.codec_lane);
            let in_layer = |p: u32| same_layer(model, sequence, p as usize - 1);
            record.awaited.retain(|awaited| !in_layer(awaited.position));
        }
        record
    }

    fn updates_of(&self, sequence: &Sequence) -> Vec<RecordedUpdate> {
        let updates = sequence.updates.iter().zip(&self.updates);
        let recorded = |(update, at): (&Update, &Span)| RecordedUpdate {
            op: OpId(update.op),
            gate: self.run_before(sequence, update.after as usize + 1).map(|run| run as u32),
            duration: Nanos(at.end - at.start),
            swaps: sequence.swaps_of(update).to_vec(),
            events: (at.start_event, at.end_event),
        };
        updates.map(recorded).collect()
    }

    /// What each codec of a lane of its own waits for because it is not to start earlier: the run
    /// after which it compresses, or that before the one with which it decompresses.
    fn codec_gates(&self, sequence: &Sequence) -> Vec<(u32, u32)> {
        let codecs = sequence.codec_positions.iter().enumerate().filter(|_| self.codec_lane);
        let gate = |(codec, position): (usize, &u32)| {
            let with = match sequence.positions[*position as usize].work {
                Work::Decompress(_) => self.leads.with(codec),
                _ => *position as usize,
            };
            Some((*position, self.run_before(sequence, with)? as u32))
        };
        codecs.filter_map(gate).collect()
    }
}

/// For every run of compute, the copies that had been started when the run before it ended.
fn awaited(record: &Record, codec_lane: bool) -> Vec<Awaited> {
    let started_before = |copies: &[RecordedCopy], event: u32| {
        (copies.partition_point(|copy| copy.events.0 < event) as u32).checked_sub(1)
    };
    let on_compute = |run: &u32| !codec_lane || !record.positions[*run as usize].is_codec();
    let runs: Vec<u32> = (0..record.positions.len() as u32).filter(on_compute).collect();
    let awaited = runs.windows(2).map(|pair| {
        let (_, ended) = record.run_events[pair[0] as usize];
        Awaited {
            position: pair[1],
            out: started_before(&record.outs, ended),
            back: started_before(&record.backs, ended),
        }
    });
    awaited.collect()
}
