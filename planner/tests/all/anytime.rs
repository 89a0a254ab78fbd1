//! `tide` has a plan soon, finds better ones, and ends with the best when it is told to.

use std::sync::Mutex;

use planner::methods::{DEFAULT, by_name};
use planner::{INTERRUPTED, Limits, Monitor, PlanError, Problem, Progress, ProvenPlan, plan};
use schema::{Bytes, Nanos};
use simulator::in_core;

/// What a search tells, and when it is told to stop.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<Heard>>,
    /// It may go on for so many steps after it has found so many plans.
    cutoff: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Heard {
    Phase(&'static str),
    Found(Nanos),
}

impl Monitor for Listener {
    fn proceed(&self, progress: Progress) -> bool {
        let mut heard = self.heard.lock().expect("nobody panics");
        heard.push(Heard::Phase(progress.phase));
        let Some((plans, steps)) = self.cutoff else { return true };
        let found = |heard: &Heard| matches!(heard, Heard::Found(_));
        let Some(last) = (plans.checked_sub(1)).map_or(Some(0), |plan| {
            heard.iter().enumerate().filter(|(_, h)| found(h)).nth(plan).map(|(at, _)| at)
        }) else {
            return true;
        };
        heard[last..].iter().filter(|heard| !found(heard)).count() <= steps
    }

    fn found(&self, iteration: Nanos) {
        self.heard.lock().expect("nobody panics").push(Heard::Found(iteration));
    }
}

impl Listener {
    fn stopping_after(plans: usize, steps: usize) -> Self {
        Self { cutoff: Some((plans, steps)), ..Self::default() }
    }

    fn heard(self) -> Vec<Heard> {
        self.heard.into_inner().expect("nobody panics")
    }
}

/// ResNet-18 as measured, recomputed in less than it takes.
fn planned(monitor: &dyn Monitor) -> Result<ProvenPlan, PlanError> {
    let trace = scenarios::trace("resnet18-host").expect("it is bundled");
    let machine = scenarios::machine("titan-v").expect("it is bundled");
    let budget = Bytes(in_core(&trace).peak.0 / 100 * 70);
    let mut problem = Problem::new(&trace, &machine, budget);
    problem.limits = Limits { evaluations: 1000 };
    // With a link beside so slow a processor, nothing would be left to search for.
    problem.allowed.swap = false;
    let method = by_name(DEFAULT).expect("it is listed");
    let plan = plan(method.as_ref(), &problem, monitor)?;
    assert!(plan.predicted.arena <= budget);
    Ok(plan)
}

#[test]
fn a_first_plan_is_there_before_the_search_and_better_ones_follow() {
    let listener = Listener::default();
    let plan = planned(&listener).expect("there is a plan");
    assert!(!plan.settings.contains_key(INTERRUPTED));
    let heard = listener.heard();
    let first = heard.iter().position(|heard| matches!(heard, Heard::Found(_)));
    let searches = |heard: &Heard| matches!(heard, Heard::Phase("sequences"));
    let searched = heard.iter().position(searches);
    assert!(first.is_some() && first < searched, "{heard:?}");
    let times: Vec<Nanos> = (heard.iter())
        .filter_map(|heard| if let Heard::Found(time) = heard { Some(*time) } else { None })
        .collect();
    assert!(times.is_sorted_by(|earlier, later| earlier >= later), "{times:?}");
    assert!(times.first() > times.last(), "{times:?}");
    assert_eq!(times.last(), Some(&plan.predicted.iteration));
}

#[test]
fn told_to_stop_it_ends_with_the_best_plan_until_then() {
    let whole = planned(&Listener::default()).expect("there is a plan");
    let mut last = Nanos(u64::MAX);
    for (plans, steps) in [(1, 0), (1, 3), (1, 12)] {
        let listener = Listener::stopping_after(plans, steps);
        let plan = planned(&listener).expect("there was a plan by then");
        assert!(plan.settings.contains_key(INTERRUPTED), "{:?}", plan.settings);
        assert!(plan.predicted.iteration >= whole.predicted.iteration);
        // Later is not worse.
        assert!(plan.predicted.iteration <= last, "{plans} plans and {steps} steps");
        last = plan.predicted.iteration;
    }
}

#[test]
fn told_to_stop_before_there_is_a_plan_a_method_fails() {
    // Another method has no plan before its search is done.
    let trace = scenarios::trace("resnet18-host").expect("it is bundled");
    let machine = scenarios::machine("titan-v").expect("it is bundled");
    let problem = Problem::new(&trace, &machine, Bytes(in_core(&trace).peak.0 / 5 * 4));
    let method = by_name("pooch").expect("it is listed");
    let plan = plan(method.as_ref(), &problem, &Listener::stopping_after(0, 0));
    assert_eq!(plan, Err(PlanError::Interrupted));
}
