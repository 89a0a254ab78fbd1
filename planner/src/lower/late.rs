//! Copies in that start later than memory allows.

use schema::Nanos;
use simulator::{Record, RecordedCopy};

/// Where an event comes: after which of those that stay, and in which order of what does. Of those with one
/// number, what ends makes room for what starts.
type Key = (u32, u32);

const END: u32 = 0;
const START: u32 = 1;

/// The record with its copies in later, by so many thousandths of the time that each has: from when it
/// started to when it could start and still be back for the run that needs it, and the next copy for its.
///
/// Started as early as memory allows, copies in fill it to the brim at every moment, and buffers that fill
/// memory seldom have addresses. What is later here lives for less time in the order of events, which is
/// all that addresses are found for. In the plan each copy starts as soon as its addresses are free, so
/// that most start earlier than here all the same.
pub(super) fn later(record: &Record, permille: u64) -> Record {
    let mut late = record.clone();
    let settled = settled(record);
    // What comes last of all that has happened by then.
    let event_at = |time: Nanos| {
        let after = settled.partition_point(|(at, _)| *at <= time);
        after.checked_sub(1).map_or(0, |last| settled[last].1)
    };
    let mut events: Vec<(Key, &mut u32)> = Vec::new();
    let outs = late.outs.iter_mut().filter(|copy| is_copied(copy)).map(|copy| &mut copy.events);
    let updates = late.updates.iter_mut().map(|update| &mut update.events);
    for (start, end) in late.run_events.iter_mut().chain(outs).chain(updates) {
        events.push(((*start, START), start));
        events.push(((*end, END), end));
    }
    let mut least = 0;
    for (index, (copy, begin)) in late.backs.iter_mut().zip(starts(record, permille)).enumerate() {
        let (start, end) = &mut copy.events;
        let length = copy.span.1 - copy.span.0;
        // It is there when the run starts that reads it.
        let before = record.run_events[copy.position as usize].0 - 1;
        let own = START + 1 + 2 * index as u32;
        let (mut from, mut until) = (*start, (*end, END));
        if begin > copy.span.0 {
            from = from.max(event_at(begin)).min(before);
            until = ((*end).max(event_at(begin + length)).min(before), own + 1);
        }
        // The lane keeps its order.
        least = from.max(least);
        events.push(((least, own), start));
        events.push((until.max((least, own + 1)), end));
    }
    events.sort_unstable_by_key(|(key, _)| *key);
    for (event, (_, of)) in events.into_iter().enumerate() {
        *of = event as u32;
    }
    late
}

/// When each copy in starts then.
fn starts(record: &Record, permille: u64) -> Vec<Nanos> {
    let mut next = Nanos(u64::MAX);
    let latest = record.backs.iter().rev().map(|copy| {
        let (start, end) = copy.span;
        let needed = record.runs[copy.position as usize].0;
        next = (needed.min(next).saturating_sub(end - start)).max(start);
        next
    });
    let latest: Vec<Nanos> = latest.collect();
    let copies = record.backs.iter().zip(latest.into_iter().rev());
    let part = |start: Nanos, latest: Nanos| {
        let spare = u128::from((latest - start).0) * u128::from(permille) / 1000;
        start + Nanos(spare as u64)
    };
    copies.map(|(copy, latest)| part(copy.span.0, latest)).collect()
}

/// Times and events of what stays where it is, in the order of events.
fn settled(record: &Record) -> Vec<(Nanos, u32)> {
    let runs = record.runs.iter().zip(&record.run_events);
    let runs = runs.flat_map(|(at, events)| [(at.0, events.0), (at.1, events.1)]);
    let outs = record.outs.iter().filter(|out| is_copied(out));
    let outs = outs.flat_map(|out| [(out.span.0, out.events.0), (out.span.1, out.events.1)]);
    let mut settled: Vec<(Nanos, u32)> = runs.chain(outs).collect();
    settled.sort_unstable_by_key(|(_, event)| *event);
    settled
}

/// Not there from the start.
pub(super) fn is_copied(out: &RecordedCopy) -> bool {
    out.home.is_none_or(|home| !home.at_start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::Bytes;
    use simulator::{Policy, Treatment, in_core};

    use super::*;
    use crate::{Problem, families};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Later copies are there in time and in their order, and all else keeps its own.
        #[test]
        fn copies_are_later_and_in_time(seed in 0u64..1000, percent in 50u64..90, permille in 0u64..=1000) {
            let trace = families::family(&format!("residual:seed={seed},ops=80")).expect("a family");
            let machine = scenarios::machine("titan-v").expect("it is listed");
            let budget = Bytes(in_core(&trace).peak.0 * percent / 100);
            let problem = Problem::new(&trace, &machine, budget);
            let mut evaluator = problem.evaluator(Policy::EARLY, budget);
            let swapped = vec![Treatment::Swap; problem.model.gaps().len()];
            let record = evaluator.record(&swapped);
            prop_assume!(record.as_ref().is_ok_and(|record| !record.backs.is_empty()));
            let record = record.expect("it was just looked at");
            let late = later(&record, permille);

            let moved = |at: u32, events: &[u32]| events.iter().filter(|other| **other < at).count();
            let starts = |record: &Record| -> Vec<u32> {
                let runs = record.run_events.iter().map(|events| events.0);
                runs.chain(record.outs.iter().map(|out| out.events.0)).collect()
            };
            let (before, after) = (starts(&record), starts(&late));
            for (old, new) in before.iter().zip(&after) {
                prop_assert_eq!(moved(*old, &before), moved(*new, &after));
            }
            let mut last = 0;
            for (old, new) in record.backs.iter().zip(&late.backs) {
                let begun = |of: &Record, at: u32| {
                    of.run_events.iter().filter(|events| events.0 < at).count()
                };
                prop_assert!(begun(&record, old.events.0) <= begun(&late, new.events.0));
                prop_assert!(last <= new.events.0 && new.events.0 < new.events.1);
                prop_assert!(new.events.1 < late.run_events[new.position as usize].0);
                last = new.events.0;
            }
        }
    }
}
