//! Made-up traces: well formed, the same for the same name, and planned by `tide` at least as well as by any other.

use planner::families::{all, family};
use planner::methods::{Method, Tide};
use planner::{Allowed, NoMonitor, Problem, bound, plan};
use schema::{Bytes, Document, Nanos};
use simulator::in_core;

#[test]
fn traces_are_well_formed_of_the_wanted_length_and_the_same_each_time() {
    for of in all() {
        for seed in 1..6 {
            let name = format!("{}:seed={seed},ops=400", of.name);
            let trace = family(&name).unwrap();
            trace.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!((200..1200).contains(&trace.ops.len()), "{name}: {} ops", trace.ops.len());
            assert_eq!(trace.digest(), family(&name).unwrap().digest(), "{name}");
            assert_ne!(trace.digest(), family(&format!("{}:seed=9", of.name)).unwrap().digest());
        }
    }
}

#[test]
fn what_is_no_family_or_option_is_refused() {
    for name in ["braid", "chain:seed", "chain:ops=7", "chain:ops=x", "chain:batch=4"] {
        assert!(family(name).is_err(), "{name}");
    }
    insta::assert_snapshot!(family("chain:ops=7").err().unwrap(), @"`ops=7` is no option of a family: write `seed=NUMBER` or `ops=NUMBER` (20 to 1000000)");
}

/// Plans with every method that takes no longer than a search, and holds `tide` and the bound against them.
fn hold(name: &str, percent: u64, allowed: Allowed) {
    let trace = family(name).unwrap();
    let machine = scenarios::machine("titan-v").unwrap();
    let budget = Bytes(in_core(&trace).peak.0 / 100 * percent);
    let mut problem = Problem::new(&trace, &machine, budget);
    problem.allowed = allowed;
    problem.limits.evaluations = 3000;
    let time = |method: &dyn Method| {
        plan(method, &problem, &NoMonitor).ok().map(|plan| plan.predicted.iteration)
    };
    let tide = time(&Tide);
    let least = bound(&problem).time().unwrap_or_default();
    assert!(tide.is_none_or(|tide| least <= tide), "{name}: bound {least:?}, {tide:?}");
    let rivals = planner::methods::all().into_iter();
    for rival in rivals.filter(|m| m.name() != Tide.name() && !m.only_on_request()) {
        let Some(other) = time(rival.as_ref()) else { continue };
        assert!(least <= other, "{name}: bound {least}, {} {other}", rival.name());
        assert!(
            tide.unwrap_or(Nanos(u64::MAX)) <= other,
            "{name}, {percent} %: {} {other}, tide {tide:?}",
            rival.name()
        );
    }
}

#[test]
fn recomputing_alone_nothing_is_faster() {
    let allowed = Allowed { swap: false, recompute: true, compress: false };
    for of in all() {
        for percent in [70, 45] {
            hold(&format!("{}:seed=3,ops=120", of.name), percent, allowed);
        }
    }
}

#[test]
fn with_copies_nothing_is_faster() {
    let allowed = Allowed { swap: true, recompute: true, compress: false };
    for of in all() {
        hold(&format!("{}:seed=4,ops=120", of.name), 50, allowed);
    }
}
