//! Made-up traces: well formed, the same for the same name, and planned by `tide` at least as well as by any other.

use crate::common::{for_each_case, random};
use planner::families::{all, family};
use planner::methods::{Method, Tide};
use planner::{
    Allowed, CodecOptions, NoMonitor, PlanError, Problem, least_budget, moving_bound, plan,
    tightened,
};
use schema::{Bytes, Document, Task};
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

#[test]
fn what_no_plan_can_do_is_refused_with_what_it_takes() {
    let machine = scenarios::machine("titan-v").unwrap();
    for of in all() {
        let trace = family(&format!("{}:seed=3,ops=300", of.name)).unwrap();
        let allowed = Allowed { swap: false, recompute: true, compress: false };
        let problem = |budget| Problem::new(&trace, &machine, budget).with_allowed(allowed);
        let least = least_budget(&problem(Bytes(0))).0;
        let error = plan(&Tide, &problem(least - Bytes(1)), &NoMonitor).unwrap_err();
        assert_eq!(error.short_by(), Some(Bytes(1)), "{}: {error}", of.name);
    }
}

/// Any family, of few ops, on any machine, and any trace at all: every method's plan is proven, as no other
/// is returned, does only what it may, none beats the bound, and none is faster than `tide`'s, whatever it may do.
///
/// `TIDEGATE_CASES=10000 cargo test --release -p tidegate-planner --test all families::unbeaten` holds it for
/// as many traces.
#[test]
fn unbeaten() {
    let families: Vec<_> = all().map(|family| family.name).collect();
    let machines = ["titan-v", "titan-v+pcie5", "rtx-3090", "h100-sxm"];
    let machines = machines.map(|name| scenarios::machine(name).unwrap());
    for_each_case(150, [20, 150, 4, 10, 20], |random, [slowed, plans, coded, reran, copied]| {
        let is_any = !random.one_in(8);
        let (name, trace, machine) = if is_any {
            ("any".to_string(), random::training(random, 60), random::machine(random))
        } else {
            let (seed, ops) = (random.next(), 20 + random.below(100));
            let name = format!("{}:seed={seed},ops={ops}", random.of(&families));
            let trace = family(&name).unwrap();
            (name, trace, machines[random.below(4) as usize].clone())
        };
        let percent = 35 + random.below(60);
        let [swap, recompute, compress] = [3, 4, 2].map(|most| random.below(most) > 0);
        let mut problem = if is_any {
            random::problem(random, &trace, &machine)
        } else {
            let models = scenarios::codec_models(&machine);
            let options = CodecOptions { sparsity: Some(0.5), lossy: random.below(2) > 0 };
            Problem::new(&trace, &machine, Bytes(0)).with_codecs(&models, options)
        };
        problem.budget = Bytes(in_core(&trace).peak.0 * percent / 100);
        problem.allowed = Allowed { swap, recompute, compress };
        problem.limits.evaluations = 2000;
        let at = format!("{name} on {}, {percent} %, {:?}", machine.name, problem.allowed);
        let least = tightened(&problem, &NoMonitor).time();
        let mut time = |method: &dyn Method| match plan(method, &problem, &NoMonitor) {
            Ok(plan) => {
                *plans += 1;
                let has = |is: fn(&Task) -> bool| plan.actions.iter().any(|a| is(&a.task));
                let does = Allowed {
                    swap: has(|task| matches!(task, Task::D2h(_))),
                    recompute: has(|task| matches!(task, Task::Recompute(_))),
                    compress: !plan.codecs.is_empty(),
                };
                if does.and(problem.allowed.and(method.uses())) != does {
                    return Err(format!("{at}: {} does {does:?}", method.name()));
                }
                if method.name() == Tide.name() {
                    *coded += u64::from(does.compress);
                    *reran += u64::from(does.recompute);
                    *copied += u64::from(does.swap);
                }
                let time = plan.predicted.iteration;
                // Of plans whose state moves there is another bound.
                let moves = plan.host_buffers.iter().any(|host| host.at_start);
                let least = if moves { moving_bound(&problem).time() } else { least };
                match least.is_some_and(|least| least <= time) {
                    true => Ok(Some(time)),
                    false => Err(format!("{at}: bound {least:?}, {} {time}", method.name())),
                }
            }
            Err(error @ PlanError::Unproven { .. }) => Err(format!("{at}: {error}")),
            Err(_) => Ok(None),
        };
        let tide = time(&Tide)?;
        *slowed += u64::from(tide.is_some_and(|tide| tide > in_core(&trace).iteration));
        for rival in planner::methods::all() {
            if rival.name() == Tide.name() || rival.only_on_request() {
                continue;
            }
            let Some(other) = time(rival.as_ref())? else { continue };
            if tide.is_none_or(|tide| other < tide) {
                return Err(format!("{at}: {} {other}, tide {tide:?}", rival.name()));
            }
        }
        Ok(())
    });
}
