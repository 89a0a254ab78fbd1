//! Methods on recordings: DTR against the table of its published simulator that lies beside them.

use crate::common::random::{self, Random};
use crate::common::recordings;
use planner::methods::{Dtr, by_name};
use planner::{NoMonitor, Problem, plan};
use schema::Bytes;
use simulator::in_core;

/// The cells of a recording's row in the README's table of slowdowns: none is out of memory.
fn published(readme: &str, name: &str) -> Vec<Option<f64>> {
    let table = readme.split("slowdown of the").nth(1).expect("the README has the table");
    let row = table.lines().find(|line| line.starts_with(&format!("| {name} ")));
    let row = row.expect("the table has a row for each recording");
    row.split('|').skip(2).take(6).map(|cell| cell.trim().parse().ok()).collect()
}

const BUDGETS_PERCENT: [u64; 6] = [80, 70, 60, 50, 40, 30];

#[test]
fn slowdowns_are_those_of_the_published_simulator() {
    let Some(readme) = recordings::readme() else { return };
    let mut table = String::new();
    let mut wrong = 0;
    for name in recordings::DTR {
        let trace = recordings::dtr(name);
        let machine = random::machine(&mut Random::new(0));
        let base = in_core(&trace);
        for (percent, published) in BUDGETS_PERCENT.into_iter().zip(published(&readme, name)) {
            let budget = Bytes(base.peak.0 / 100 * percent);
            let problem = Problem::new(&trace, &machine, budget);
            let slowdown = Dtr::run(&problem, budget)
                .ok()
                .map(|run| run.time.0 as f64 / base.iteration.0 as f64);
            let agrees = match (slowdown, published) {
                (Some(ours), Some(theirs)) => (ours / theirs - 1.0).abs() < 0.0005,
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            };
            wrong += usize::from(!agrees);
            table += &format!("{name} {percent}%: {slowdown:?}, published {published:?}\n");
        }
    }
    println!("{table}");
    assert!(wrong == 0, "{wrong} cells differ:\n{table}");
}

/// What the policy does becomes a plan in the same order; addresses may cost some memory, and so
/// some time.
#[test]
fn its_plans_are_safe_and_take_the_time_of_the_policy() {
    if recordings::readme().is_none() {
        return;
    }
    for (name, percent) in [("resnet32", 30), ("unet", 50), ("transformer", 50)] {
        let trace = recordings::dtr(name);
        let machine = random::machine(&mut Random::new(0));
        let budget = Bytes(in_core(&trace).peak.0 / 100 * percent);
        let problem = Problem::new(&trace, &machine, budget);
        let method = by_name("dtr").expect("it is listed");
        let plan = plan(method.as_ref(), &problem, &NoMonitor).expect("it fits");
        let run = Dtr::run(&problem, budget).expect("it fits");
        println!(
            "{name} {percent}%: {} by the policy, {} planned",
            run.time, plan.predicted.iteration
        );
        let slower = plan.predicted.iteration.0 as f64 / run.time.0 as f64;
        assert!((0.98..1.1).contains(&slower), "{name}: {slower} times the policy's time");
    }
}
