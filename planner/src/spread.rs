//! Times that scatter: what is planned with when they do, and what a plan makes of them.

use std::f64::consts::TAU;

use schema::{
    Bandwidth, BytesPerSec, Direction, Document, Lane, Machine, Nanos, Plan, Processor, Reference,
    Task, Trace,
};
use simulator::replay::{Schedule, replay_with};
use simulator::{Program, ProvenPlan, figures};

use crate::plan::proven;
use crate::split_mix::SplitMix;
use crate::{Problem, Result};

/// By how much times scatter: each is its stated value times a factor whose logarithm is normal
/// with mean zero (the stated value is the median). Times are positive and their tails long to the
/// right, which is what that distribution is for (Limpert, Stahel and Abbt, 2001).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    sigma: f64,
}

/// A spread or a quantile that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// The spread is not between 0 and 100 %.
    #[error("times scatter by more than 0% and by at most 100%")]
    Spread,
    /// The quantile is not between a half and one.
    #[error("a quantile to be safe at lies from 50% to below 100%")]
    Quantile,
}

/// The times of one plan's iteration over many replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replays {
    /// From the shortest to the longest.
    times: Vec<u64>,
}

impl Replays {
    /// The shortest time that this share of the replays does not exceed; 1 for the longest.
    pub fn quantile(&self, share: f64) -> Nanos {
        let count = (self.times.len() as f64 * share - 1e-6).ceil() as usize;
        Nanos(self.times[count.clamp(1, self.times.len()) - 1])
    }
}

impl Spread {
    /// A spread by its coefficient of variation: the standard deviation over the mean, 0.1 for
    /// 10 %.
    pub fn new(variation: f64) -> Result<Self, SpreadError> {
        let stated = variation > 0.0 && variation <= 1.0;
        let sigma = (1.0 + variation * variation).ln().sqrt();
        if stated { Ok(Self { sigma }) } else { Err(SpreadError::Spread) }
    }

    /// The factor that a time exceeds with a probability of only one less `quantile`.
    pub fn slower(self, quantile: f64) -> Result<f64, SpreadError> {
        if !(0.5..1.0).contains(&quantile) {
            return Err(SpreadError::Quantile);
        }
        Ok((self.sigma * normal_quantile(quantile)).exp())
    }

    fn draw(self, random: &mut SplitMix) -> f64 {
        // Box and Muller (1958); one less the number, because zero has no logarithm.
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        (self.sigma * radius * (TAU * random.unit()).cos()).exp()
    }
}

/// The quantile of the standard normal distribution from a half on.
fn normal_quantile(probability: f64) -> f64 {
    let (mut below, mut above) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (below + above) / 2.0;
        if normal_beyond(middle) > 1.0 - probability { below = middle } else { above = middle }
    }
    (below + above) / 2.0
}

/// The probability that a standard normal number is larger than `x`, which is not negative: error
/// below 1e-7 (Abramowitz and Stegun, 1964, formula 26.2.17).
fn normal_beyond(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-x * x / 2.0).exp() / TAU.sqrt() * sum
}

/// The machine and the trace with what hides behind ops, or adds to them, slower by a factor:
/// copies and ops that are run again. The iteration's own ops keep their times. Were they slower,
/// too, everything would be as before, only later: decisions depend on what fits behind them.
pub fn slower(trace: &Trace, machine: &Machine, factor: f64) -> (Trace, Machine) {
    let (mut trace, mut machine) = (trace.clone(), machine.clone());
    for op in &mut trace.ops {
        op.recompute = Some(scaled(op.recompute.unwrap_or(op.duration), factor));
    }
    for Bandwidth { pinned, pageable } in [&mut machine.link.d2h, &mut machine.link.h2d] {
        for point in pinned.iter_mut().chain(pageable) {
            let speed = (point.bytes_per_sec.0 as f64 / factor).round() as u64;
            point.bytes_per_sec = BytesPerSec(speed.max(1));
        }
    }
    (trace, machine)
}

/// A plan that was made for slower copies and reruns, as the plan of the problem itself: its order,
/// dependencies and addresses, which are safe under any timing, with the problem's times.
///
/// # Errors
///
/// If the plan is of another trace than the slower one of the problem's.
pub fn retimed(plan: ProvenPlan, problem: &Problem) -> Result<ProvenPlan> {
    let Problem { trace, machine, .. } = problem;
    let mut plan = plan.into_plan();
    for index in 0..plan.actions.len() {
        let action = &plan.actions[index];
        let copy = |direction| machine.link.copy_time(direction, plan.moved_bytes(action));
        let duration = match action.task {
            Task::Run(_) if action.on == Processor::Host => action.duration,
            Task::Run(op) => trace.ops[op.index()].duration,
            Task::Recompute(op) => {
                let op = &trace.ops[op.index()];
                op.recompute.unwrap_or(op.duration)
            }
            Task::D2h(_) => copy(Direction::D2h),
            Task::H2d(_) => copy(Direction::H2d),
            Task::Compress(_) | Task::Decompress(_) => action.duration,
        };
        plan.actions[index].duration = duration;
    }
    plan.trace = Reference { name: trace.title(), digest: problem.trace_digest().clone() };
    plan.machine = Reference { name: machine.name.clone(), digest: machine.digest() };
    plan.predicted = figures(&plan);
    proven(plan, problem)
}

/// Replays a plan with times that scatter: each action's on its own, and the link's from replay to
/// replay, since what else uses a link does so for longer than a copy. The seed is fixed, so that
/// plans are compared on the same days.
pub fn replays(plan: &Plan, spread: Spread, count: u32) -> Replays {
    let program = Program::of(plan);
    let mut random = SplitMix::new(1);
    let mut schedule = Schedule::default();
    let mut durations = vec![0; program.len()];
    let mut times: Vec<u64> = (0..count.max(1))
        .map(|_| {
            let link = spread.draw(&mut random);
            for (duration, action) in durations.iter_mut().zip(&plan.actions) {
                let is_copy = matches!(plan.lane(action), Lane::D2h | Lane::H2d);
                let factor = spread.draw(&mut random) * if is_copy { link } else { 1.0 };
                *duration = scaled(action.duration, factor).0;
            }
            replay_with(&program, &durations, &mut schedule, &mut ());
            schedule.iteration_ns
        })
        .collect();
    times.sort_unstable();
    Replays { times }
}

fn scaled(time: Nanos, factor: f64) -> Nanos {
    Nanos((time.0 as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, quantile) in
            [(0.5, 0.0), (0.9, 1.281_551_6), (0.99, 2.326_347_9), (0.999, 3.090_232_3)]
        {
            assert!((normal_quantile(probability) - quantile).abs() < 1e-4, "{probability}");
        }
    }

    #[test]
    fn drawn_factors_have_the_stated_spread() {
        let spread = Spread::new(0.2).expect("a spread");
        let mut random = SplitMix::new(7);
        let mut factors: Vec<f64> = (0..20_000).map(|_| spread.draw(&mut random)).collect();
        factors.sort_by(f64::total_cmp);
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        let variance = factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>();
        let variation = (variance / factors.len() as f64).sqrt() / mean;
        assert!((variation - 0.2).abs() < 0.01, "{variation}");
        assert!((factors[10_000] - 1.0).abs() < 0.01, "{}", factors[10_000]);
        let at_90 = spread.slower(0.9).expect("a quantile");
        assert!((factors[18_000] - at_90).abs() < 0.01, "{at_90}");
    }

    #[test]
    fn a_quantile_is_a_time_that_occurred() {
        let replays = Replays { times: (1..=1000).collect() };
        for (share, time) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.9999, 1000), (1.0, 1000)] {
            assert_eq!(replays.quantile(share), Nanos(time));
        }
        assert_eq!(Replays { times: vec![7] }.quantile(0.5), Nanos(7));
    }

    #[test]
    fn what_is_no_spread_or_quantile_is_refused() {
        for variation in [0.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(Spread::new(variation), Err(SpreadError::Spread));
        }
        let spread = Spread::new(0.1).expect("a spread");
        for quantile in [0.4, 1.0, f64::NAN] {
            assert_eq!(spread.slower(quantile), Err(SpreadError::Quantile));
        }
        assert_eq!(spread.slower(0.5).map(|factor| (factor * 1e6).round()), Ok(1e6));
    }
}
