//! What the proof and the contract say of a plan, beside what the independent checker says.

use std::collections::BTreeMap;

use checker::{Fallback, Machine, Mutation, Prepared, Random, Timing, Wanted, Wrong};
use codecs::claims::check_claims;
use schema::{Document, Plan, Trace};
use simulator::{check_contract, check_figures, figures, prove};

/// What became of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No reader would return it.
    Malformed,
    /// Both refuse it.
    Refused,
    /// Both accept it.
    Accepted,
    /// Refused, and the checker finds nothing: the reason's name.
    FalseAlarm(String),
    /// Accepted, and wrong.
    Hole(Wrong),
}

/// What the simulator says: nothing, or the name of what is wrong.
fn refused(plan: &Plan, trace: &Trace) -> Option<String> {
    let name = |error: &dyn std::fmt::Debug| {
        let text = format!("{error:?}");
        text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
    };
    prove(plan)
        .map_err(|error| name(&error))
        .and_then(|()| check_figures(plan).map_err(|error| name(&error)))
        .and_then(|_| check_contract(plan, trace).map_err(|error| name(&error)))
        .and_then(|()| check_claims(plan, trace).map_err(|error| name(&error)))
        .err()
}

/// Runs a plan under as many timings; how many actions that were.
pub fn run(
    prepared: &Prepared,
    timings: u64,
    fallback: Fallback,
    random: &mut Random,
) -> Result<usize, Wrong> {
    let mut machine = Machine::new(prepared);
    let mut actions = 0;
    for _ in 0..timings {
        let mut timing = Timing::drawn(random);
        actions += machine.run(&mut timing, fallback, random)?;
    }
    Ok(actions)
}

/// Both answers. What both accept is run under some timings, too.
pub fn judge(
    plan: &Plan,
    (trace, wanted): (&Trace, &Wanted),
    random: &mut Random,
    at: &dyn Fn() -> String,
) -> Verdict {
    if plan.check().is_err() {
        return Verdict::Malformed;
    }
    let refused = refused(plan, trace);
    let prepared = Prepared::new(plan, wanted);
    let exact = prepared.as_ref().map_err(Clone::clone).and_then(Prepared::check);
    match (refused, exact) {
        (Some(_), Err(_)) => Verdict::Refused,
        (None, Err(wrong)) => Verdict::Hole(wrong),
        (refused, Ok(())) => {
            let prepared = prepared.expect("it was checked");
            run(&prepared, 3, Fallback::Drawn, random)
                .unwrap_or_else(|wrong| panic!("{}: right by its order, and {wrong}", at()));
            match (refused, prepared.check_predicted()) {
                (None, Ok(())) => Verdict::Accepted,
                (None, Err(wrong)) => Verdict::Hole(wrong),
                (Some(_), Err(_)) => Verdict::Refused,
                (Some(reason), Ok(())) => Verdict::FalseAlarm(reason),
            }
        }
    }
}

/// States the figures that follow from what was changed, so that it alone is judged.
fn restate(plan: &mut Plan) {
    if plan.check().is_ok() && prove(plan).is_ok() {
        plan.predicted = figures(plan);
    }
}

/// Verdicts by kind of mutation.
#[derive(Debug, Default)]
pub struct Tally {
    verdicts: BTreeMap<Mutation, [u64; 5]>,
    false_alarms: BTreeMap<(Mutation, String), u64>,
    /// What is wrong with plans that were accepted.
    pub holes: Vec<String>,
}

impl Tally {
    /// Changes a plan in one way and judges it. False where there is nothing to change.
    pub fn mutate(
        &mut self,
        mutation: Mutation,
        plan: &Plan,
        (trace, wanted): (&Trace, &Wanted),
        random: &mut Random,
        at: &dyn Fn() -> String,
    ) -> bool {
        let mut changed = plan.clone();
        if !mutation.apply(&mut changed, trace, random) || changed == *plan {
            return false;
        }
        if !mutation.forges() {
            restate(&mut changed);
        }
        let at = || format!("{} of {}", mutation.name(), at());
        let verdict = judge(&changed, (trace, wanted), random, &at);
        let column = match verdict {
            Verdict::Malformed => 0,
            Verdict::Refused => 1,
            Verdict::Accepted => 2,
            Verdict::FalseAlarm(reason) => {
                *self.false_alarms.entry((mutation, reason)).or_default() += 1;
                3
            }
            Verdict::Hole(wrong) => {
                self.holes.push(format!("{}: {wrong}", at()));
                4
            }
        };
        self.verdicts.entry(mutation).or_default()[column] += 1;
        true
    }

    /// How many mutants there were.
    pub fn count(&self) -> u64 {
        self.verdicts.values().flatten().sum()
    }

    /// How many mutants of a kind there were.
    pub fn count_of(&self, mutation: Mutation) -> u64 {
        self.verdicts.get(&mutation).iter().flat_map(|verdicts| verdicts.iter()).sum()
    }

    pub fn add(&mut self, other: Self) {
        for (mutation, verdicts) in other.verdicts {
            let sums = self.verdicts.entry(mutation).or_default();
            sums.iter_mut().zip(verdicts).for_each(|(sum, more)| *sum += more);
        }
        for (what, count) in other.false_alarms {
            *self.false_alarms.entry(what).or_default() += count;
        }
        self.holes.extend(other.holes);
    }
}

/// A table, and the reasons of false alarms.
impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let heads = ["mutants", "malformed", "refused", "as good", "false alarms", "holes"];
        write!(f, "{:34}", "")?;
        heads.iter().try_for_each(|head| write!(f, "{head:>13}"))?;
        let mut sums = [0; 5];
        let row = |f: &mut std::fmt::Formatter<'_>, name: &str, verdicts: &[u64; 5]| {
            write!(f, "\n{name:34}{:>13}", verdicts.iter().sum::<u64>())?;
            verdicts.iter().try_for_each(|count| write!(f, "{count:>13}"))
        };
        for (mutation, verdicts) in &self.verdicts {
            row(f, mutation.name(), verdicts)?;
            sums.iter_mut().zip(verdicts).for_each(|(sum, more)| *sum += more);
        }
        row(f, "all", &sums)?;
        for ((mutation, reason), count) in &self.false_alarms {
            write!(f, "\nfalse alarm: {}: {reason}: {count}", mutation.name())?;
        }
        Ok(())
    }
}
