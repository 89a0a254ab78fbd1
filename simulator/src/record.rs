//! A timing as a value of its own.

use schema::{Nanos, TensorId};

use crate::evaluator::{Awaited, Outcome, Record, RecordedCopy};
use crate::sequence::Sequence;
use crate::timing::{OffloadStart, Policy, Span, Timing};

impl Timing {
    /// Everything about the sequence that was timed last.
    pub(crate) fn record(&self, outcome: Outcome, policy: Policy, sequence: &Sequence) -> Record {
        let span = |span: &Span| (Nanos(span.start), Nanos(span.end));
        let events = |span: &Span| (span.start_event, span.end_event);
        let copy = |swap: u32, position: u32, gate: Option<u32>, at: &Span| RecordedCopy {
            swap,
            tensor: TensorId(sequence.swaps[swap as usize].tensor),
            codec: sequence.swaps[swap as usize].codec,
            position,
            gate,
            span: span(at),
            events: events(at),
        };
        let outs = sequence.swaps.iter().zip(&self.outs).enumerate().map(|(id, (swap, at))| {
            let gate = match policy.offload {
                // With the last use: when the run before that has ended.
                OffloadStart::WithLastUse if !swap.made_there => swap.out_after.checked_sub(1),
                _ => Some(swap.out_after),
            };
            copy(id as u32, swap.out_after, gate, at)
        });
        let backs = sequence.returns.iter().zip(&self.backs).map(|(back, at)| {
            let gate = self.gate(back.before as usize).checked_sub(1).map(|run| run as u32);
            copy(back.swap, back.before, gate, at)
        });
        let mut record = Record {
            outcome,
            positions: sequence.positions.clone(),
            runs: self.runs.iter().map(span).collect(),
            run_events: self.runs.iter().map(events).collect(),
            awaited: Vec::new(),
            outs: outs.collect(),
            backs: backs.collect(),
            packings: sequence.packings.clone(),
            residencies: sequence.residencies.clone(),
            donations: (sequence.donations.iter())
                .map(|d| (d.position, TensorId(d.input), TensorId(d.output)))
                .collect(),
        };
        if policy.synchronous {
            record.awaited = awaited(&record);
        }
        record
    }
}

/// For every run, the copies that had been started when the run before it ended.
fn awaited(record: &Record) -> Vec<Awaited> {
    let started_before = |copies: &[RecordedCopy], event: u32| {
        (copies.partition_point(|copy| copy.events.0 < event) as u32).checked_sub(1)
    };
    let runs = record.run_events.iter().zip(1u32..);
    let awaited = runs.map(|((_, ended), position)| Awaited {
        position,
        out: started_before(&record.outs, *ended),
        back: started_before(&record.backs, *ended),
    });
    awaited.filter(|a| (a.position as usize) < record.positions.len()).collect()
}
