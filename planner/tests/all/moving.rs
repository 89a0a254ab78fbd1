//! State that the device has no room for: where it is between iterations, what a plan of it takes, and why
//! there is none.

use crate::common::build::{machine, op, tensor, trace};
use networks::{Extents, NetworkOptions, Optimizer, modelled_trace, network};
use planner::families::family as family_of;
use planner::methods::by_name;
use planner::{
    Allowed, Bound, NoMonitor, PlanError, Problem, bound, least_budget, moving_bound, plan,
};
use schema::{Bytes, Nanos, OpKind, Phase, Plan, Processor, Role, Task, TensorId, Trace};
use simulator::Infeasible;

/// In bytes: whole steps of addresses.
const MB: u64 = 1_024_000;
/// In nanoseconds.
const MS: u64 = 1_000_000;
/// A megabyte in a millisecond.
const LINK: u64 = 1000 * MB;

/// Two layers with a parameter of 1 MB and a state of 3 MB; each op takes 1 ms.
fn trained() -> Trace {
    let [parameters, states, maps, gradients] = [0, 2, 4, 6];
    let of = |role, bytes| (0..2).map(move |l| tensor(format!("{role:?} {l}"), bytes, role));
    let tensors = (of(Role::Parameter, MB).chain(of(Role::OptimizerState, 3 * MB)))
        .chain(of(Role::Activation, MB))
        .chain(of(Role::Gradient, MB));
    let run =
        |name: &str, phase, lists: [&[u32]; 3]| op(name, (OpKind::MatrixProduct, phase), MS, lists);
    let update = |l: u32| {
        let reads = [parameters + l, states + l, gradients + l];
        let mut op = run("update", Phase::Update, [&reads, &[], &[gradients + l]]);
        op.rerunnable = false;
        op
    };
    use Phase::{Backward, Forward};
    let ops = vec![
        run("forward 0", Forward, [&[parameters], &[maps], &[]]),
        run("forward 1", Forward, [&[parameters + 1, maps], &[maps + 1], &[]]),
        run("backward 1", Backward, [&[parameters + 1, maps + 1], &[gradients + 1], &[maps + 1]]),
        run("backward 0", Backward, [&[parameters, maps], &[gradients], &[maps]]),
        update(0),
        update(1),
    ];
    trace("trained", tensors.collect(), ops)
}

fn tide(problem: &Problem) -> Result<Plan, PlanError> {
    plan(by_name("tide").expect("it is there").as_ref(), problem, &NoMonitor)
        .map(|plan| plan.into_plan())
}

fn homes(plan: &Plan) -> Vec<TensorId> {
    plan.host_buffers.iter().filter(|host| host.at_start).map(|host| host.tensor).collect()
}

#[test]
fn what_has_no_room_moves() {
    let (trace, machine) = (trained(), machine(LINK));
    let problem = |megabytes| Problem::new(&trace, &machine, Bytes(megabytes * MB));
    // 8 MB outlive the iteration; the updates read 5 MB each.
    assert_eq!(least_budget(&problem(8)).0, Bytes(5 * MB));
    let whole = tide(&problem(11)).expect("all of it fits");
    assert_eq!(homes(&whole), []);
    for megabytes in [7, 6, 5] {
        let problem = problem(megabytes);
        let plan = tide(&problem).unwrap_or_else(|error| panic!("{megabytes} MB: {error}"));
        // Both states: with one of them, and what else stays, an update has no room.
        let states = [TensorId(2), TensorId(3)];
        assert!(states.iter().all(|id| homes(&plan).contains(id)), "{megabytes}");
        let Bound::Time(least) = bound(&problem) else { panic!("{megabytes} MB have a plan") };
        assert!(least <= plan.predicted.iteration && least >= trace.total_time());
        assert!(plan.predicted.peak <= problem.budget);
        let at_end = plan.host_buffers.iter().filter(|host| host.at_end);
        assert_eq!(at_end.count(), homes(&plan).len());
    }
    // At worst, nothing but the gradients' ops runs beside a copy.
    let plan = tide(&problem(7)).expect("a plan");
    assert!(plan.predicted.iteration.0 <= 6 * MS + 4 * 3 * MS, "{}", plan.predicted.iteration);
}

/// Over a fast link, where there is room for all that outlives the iteration but not for the activations beside it.
#[test]
fn state_that_has_room_moves_where_that_is_faster() {
    let machine = machine(4 * LINK);
    let trained = |milliseconds: u64| {
        let mut trace = trained();
        trace.ops[..4].iter_mut().for_each(|op| op.duration = Nanos(milliseconds * MS));
        trace.tensors[4..6].iter_mut().for_each(|map| map.bytes = Bytes(8 * MB));
        trace
    };
    let planned = |trace: &Trace| {
        tide(&Problem::new(trace, &machine, Bytes(24 * MB))).expect("all of it fits")
    };
    let trace = trained(2);
    let mut held = trace.clone();
    held.tensors[..4].iter_mut().for_each(|state| state.held = true);
    let (plan, kept) = (planned(&trace), planned(&held));
    assert_ne!(homes(&plan), []);
    assert!(plan.predicted.iteration < kept.predicted.iteration);
    // Where little can be gained, no time is spent on it.
    assert_eq!(homes(&planned(&trained(4))), []);
}

/// Both updates read and change 8 MB, of which 5 MB may be there before and after.
#[test]
fn the_bound_counts_what_comes_in_and_goes_out() {
    let (trace, machine) = (trained(), machine(LINK / 4));
    let problem = Problem::new(&trace, &machine, Bytes(5 * MB));
    let Bound::Time(least) = moving_bound(&problem) else { panic!("there is a plan") };
    // At 4 ms a megabyte, 3 MB go out, but for rounding.
    assert!(least.0 >= 4 * MS + 12 * MS - 10, "{least}");
    assert!(tide(&problem).expect("a plan").predicted.iteration >= least);
}

/// Of Llama 3 8B an H100 holds little more than half of what an update needs, and less where the loss is computed. What
/// is there then was so before and has to come after, so that stretches say more together than each for itself, and the
/// plan comes near to that.
#[test]
fn the_bound_and_the_plan_of_updates_after_all_gradients_are_near() {
    let machine = scenarios::machine("h100-sxm").expect("it is bundled");
    let trained = |layers: u32| {
        let extents = Extents { layers: Some(layers), ..Extents::default() };
        let options = NetworkOptions {
            batch: 1,
            optimizer: Some(Optimizer::Adam),
            extents,
            ..NetworkOptions::default()
        };
        let network = network("llama3-8b", &options).expect("it is listed");
        modelled_trace(&network, &machine).expect("a modelled trace")
    };
    let least = |problem: &Problem| match moving_bound(problem) {
        Bound::Time(least) => least,
        Bound::Infeasible { .. } => panic!("there is a plan"),
    };
    let trace = trained(32);
    let whole = Problem::new(&trace, &machine, Bytes(84_186_345_920));
    let whole = whole.with_host_budget(Bytes(256_000_000_000));
    let total = trace.total_time().0 as f64;
    assert!(least(&whole).0 as f64 > 1.4 * total, "{} of {total}", least(&whole));
    let trace = trained(8);
    let part = Problem::new(&trace, &machine, Bytes(32_000_000_000)).with_evaluations(100);
    let plan = tide(&part).expect("a plan");
    let over = plan.predicted.iteration.0 as f64 / least(&part).0 as f64;
    assert!((1.0..1.1).contains(&over), "{over}");
}

/// As the backward phase begins, 10 MB are wanted then or later, and its first op leaves 4 MB of the device and
/// the host has 4 MB: over any link, both activations are made again.
#[test]
fn the_bound_counts_what_neither_device_nor_host_holds() {
    let (trace, machine) = (trained(), machine(1000 * LINK));
    let problem = Problem::new(&trace, &machine, Bytes(5 * MB)).with_host_budget(Bytes(4 * MB));
    let Bound::Time(least) = moving_bound(&problem) else { panic!("constants have room") };
    assert!(least.0 >= 8 * MS - 10, "{least}");
    let roomy = problem.with_host_budget(Bytes(64 * MB));
    let Bound::Time(least) = moving_bound(&roomy) else { panic!("there is a plan") };
    assert!(least.0 < 7 * MS, "{least}");
}

#[test]
fn why_there_is_no_plan() {
    let (trace, machine) = (trained(), machine(LINK));
    let within = |budget: u64| Problem::new(&trace, &machine, Bytes(budget));
    let small = tide(&within(4 * MB)).expect_err("an update reads more");
    assert_eq!(small.short_by(), Some(Bytes(MB)), "{small}");

    let host = within(5 * MB).with_host_budget(Bytes(MB));
    let error = tide(&host).expect_err("the host has no room");
    assert!(matches!(error, PlanError::Impossible(Infeasible::HostMemory { .. })), "{error}");
    assert!(matches!(bound(&host), Bound::Infeasible { .. }));

    let allowed = Allowed { swap: false, recompute: true, compress: false };
    let error = tide(&within(6 * MB).with_allowed(allowed)).expect_err("nothing may move");
    assert!(error.short_by().is_some(), "{error}");

    let slow = crate::common::build::machine(1);
    let error = tide(&Problem::new(&trace, &slow, Bytes(6 * MB))).expect_err("years");
    assert_eq!(error, PlanError::TooLong);
}

/// What a recording holds from before it began, without a word of what reads it.
#[test]
fn what_no_op_is_known_to_read_does_not_move() {
    let (mut trace, machine) = (trained(), machine(LINK));
    trace.ops.iter_mut().for_each(|op| op.reads.retain(|id| *id != TensorId(0)));
    trace.ops[4].frees.retain(|id| *id != TensorId(0));
    let plan = tide(&Problem::new(&trace, &machine, Bytes(6 * MB))).expect("the rest may move");
    assert!(!homes(&plan).is_empty() && !homes(&plan).contains(&TensorId(0)));
}

/// A budget that is hard to plan for and of which nothing can move, as the caller holds all that outlives
/// the iteration, is planned for or refused.
#[test]
fn what_the_caller_holds_does_not_move() {
    let machine = machine(LINK);
    let mut refused = 0;
    for family in ["dense", "u-shaped", "unrolled"] {
        let mut trace = family_of(&format!("{family}:seed=3,ops=60")).expect("a family");
        trace.tensors.iter_mut().for_each(|tensor| tensor.held |= tensor.role == Role::Parameter);
        let least = least_budget(&Problem::new(&trace, &machine, Bytes(u64::MAX / 4)));
        for percent in [100, 103, 106] {
            let budget = Bytes(least.0.0 * percent / 100);
            let problem = Problem::new(&trace, &machine, budget).with_evaluations(50);
            match tide(&problem) {
                Ok(plan) => assert!(homes(&plan).is_empty()),
                Err(error) => refused += u32::from(error.short_by().is_some()),
            }
        }
    }
    assert!(refused > 0);
}

/// The processor of the host updates a megabyte that is read or written in so much time.
fn updating(machine: &schema::Machine, per_megabyte: u64) -> schema::Machine {
    let mut machine = machine.clone();
    machine.host.updates = Some(schema::BytesPerSec(MB * 1_000_000_000 / per_megabyte));
    machine
}

fn made_by(method: &str, problem: &Problem) -> Result<Plan, PlanError> {
    let method = by_name(method).expect("it is there");
    plan(method.as_ref(), problem, &NoMonitor).map(|plan| plan.into_plan())
}

fn copied(plan: &Plan, of: &[u32]) -> [usize; 2] {
    let is_of = |id: TensorId| of.contains(&id.0);
    let count = |is: &dyn Fn(Task) -> bool| plan.actions.iter().filter(|a| is(a.task)).count();
    [
        count(&|task| matches!(task, Task::D2h(id) if is_of(id))),
        count(&|task| matches!(task, Task::H2d(id) if is_of(id))),
    ]
}

/// The state is never on the device and never copied; gradients leave and parameters come in.
#[test]
fn zero_offload_updates_on_the_host() {
    let trace = trained();
    let machine = updating(&machine(LINK), MS / 4);
    // 9 MB are read and 4 changed, in updates of 2.25 ms.
    for (method, parameters_in) in [("zero-offload", 2), ("zero-infinity", 4)] {
        let problem = Problem::new(&trace, &machine, Bytes(6 * MB));
        let plan = made_by(method, &problem).unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(copied(&plan, &[2, 3]), [0, 0], "{method}: states");
        assert_eq!(copied(&plan, &[6, 7]), [2, 0], "{method}: gradients");
        assert_eq!(copied(&plan, &[0, 1]), [0, parameters_in], "{method}: parameters");
        let there = plan.actions.iter().filter(|action| action.on == Processor::Host);
        let times: Vec<u64> = there.map(|action| action.duration.0).collect();
        assert_eq!(times, [9 * MS / 4, 9 * MS / 4], "{method}");
        assert!(plan.predicted.bound.is_some_and(|least| least <= plan.predicted.iteration));
        // The ops of the device, the last gradient on its way, and two updates after that.
        let most = 4 * MS + 2 * MS + 9 * MS / 2 + 3 * MS;
        assert!(plan.predicted.iteration.0 <= most, "{method}: {}", plan.predicted.iteration);
        assert_eq!(homes(&plan).len(), 4);
    }
}

#[test]
fn zero_offload_says_what_lacks() {
    let (trace, slow) = (trained(), machine(LINK));
    let error = made_by("zero-offload", &Problem::new(&trace, &slow, Bytes(8 * MB)));
    assert_eq!(error.expect_err("no rate"), PlanError::NoUpdatesThere);
    let machine = updating(&slow, MS);
    let mut recorded = trace.clone();
    recorded.ops.truncate(4);
    let error = made_by("zero-offload", &Problem::new(&recorded, &machine, Bytes(1 << 40)));
    assert!(matches!(error, Err(PlanError::NotApplicable { .. })), "{error:?}");
    let small = Problem::new(&trace, &machine, Bytes(2 * MB));
    assert!(made_by("zero-offload", &small).expect_err("no room").short_by().is_some());
    let host = Problem::new(&trace, &machine, Bytes(8 * MB)).with_host_budget(Bytes(5 * MB));
    let error = made_by("zero-offload", &host).expect_err("the host has no room");
    assert!(matches!(error, PlanError::Impossible(Infeasible::HostMemory { .. })), "{error}");
}

/// Over a slow link with a fast processor on the host, tide has the updates there, and the other way round
/// not; the bound holds for both.
#[test]
fn tide_updates_where_it_is_faster() {
    let trace = trained();
    for (link, per_megabyte, there) in [(LINK / 4, MS / 100, true), (100 * LINK, 10 * MS, false)] {
        let machine = updating(&machine(link), per_megabyte);
        let problem = Problem::new(&trace, &machine, Bytes(6 * MB));
        let plan = tide(&problem).expect("a plan");
        let updates = plan.actions.iter().filter(|action| action.on == Processor::Host);
        assert_eq!(updates.count() > 0, there, "{}", plan.predicted.iteration);
        let Bound::Time(least) = moving_bound(&problem) else { panic!("there is a plan") };
        assert!(least <= plan.predicted.iteration);
    }
}
