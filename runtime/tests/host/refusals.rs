//! Plans that a device does not take.

use planner::{Decided, Problem, lower};
use runtime::device::DeviceError;
use runtime::device::host::{HostDevice, HostOptions};
use schema::{Bytes, Document, Nanos, Plan, Role, Task};
use simulator::{ContractError, OffloadStart, Policy, Treatment, figures};

use crate::networks;
use crate::problem::{self, Subject, zfp};

#[test]
fn only_a_proven_plan_of_this_networks_trace_is_taken() {
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    let plan = subject.plan("swap-all", 65, false, None);
    let options = HostOptions::new(problem::link(1_000));
    let refused =
        |network, trace, plan: &schema::Plan| HostDevice::new(network, trace, plan, &options).err();
    assert_eq!(refused(network, trace, &plan), None);

    let other = networks::small("resnet");
    let other_trace = problem::trace(&other);
    let error = refused(network, &other_trace, &plan);
    assert!(matches!(error, Some(DeviceError::OtherNetwork { .. })), "{error:?}");
    let error = refused(&other, &other_trace, &plan);
    assert!(matches!(error, Some(DeviceError::Contract(_))), "{error:?}");
    // The same network as it was measured another time: a plan belongs to one trace.
    let mut again = trace.clone();
    again.ops[0].duration += Nanos(1);
    assert_ne!(again.digest(), trace.digest());
    let error = refused(network, &again, &plan);
    assert!(matches!(error, Some(DeviceError::Contract(_))), "{error:?}");

    // Without the waits, buffers share addresses at once.
    let mut hasty = plan.clone();
    hasty.actions.iter_mut().for_each(|action| action.after.clear());
    let error = refused(network, trace, &hasty);
    assert!(matches!(error, Some(DeviceError::Unsafe(_))), "{error:?}");
    let mut small = plan.clone();
    small.budget = plan.predicted.arena - Bytes(256);
    let error = refused(network, trace, &small);
    assert!(matches!(error, Some(DeviceError::Unsafe(_))), "{error:?}");
    let mut forward = plan.clone();
    forward.actions[0].after.push(schema::ActionId(3));
    let error = refused(network, trace, &forward);
    assert!(matches!(error, Some(DeviceError::Malformed(_))), "{error:?}");
}

#[test]
fn a_parameter_that_moves_while_it_is_updated_is_refused() {
    let subject = Subject::small("vgg");
    let Subject { network, trace } = &subject;
    let machine = problem::machine(false);
    let problem = Problem::new(trace, &machine, Bytes(2 * simulator::in_core(trace).peak.0));
    // Parameters that leave after their update, and come back for the next iteration.
    let mut treatments = problem.keep_all();
    for (treatment, gap) in treatments.iter_mut().zip(problem.model.gaps()) {
        let is_parameter = trace.tensors[gap.tensor.index()].role == Role::Parameter;
        if is_parameter && gap.before.is_none() {
            *treatment = Treatment::Swap;
        }
    }
    let decided =
        |offload| Decided::new(treatments.clone(), Policy { offload, ..Policy::EARLY }, Vec::new());
    let options = HostOptions::new(problem::link(1_000));
    // Planning waits for the update, whenever copies may start.
    for offload in [OffloadStart::AfterLastUse, OffloadStart::WithLastUse] {
        let plan = lower(&problem, problem.budget, &decided(offload)).unwrap();
        assert_eq!(HostDevice::new(network, trace, &plan, &options).err(), None);
    }
    let mut plan = lower(&problem, problem.budget, &decided(OffloadStart::AfterLastUse)).unwrap();
    // Pacing is not what makes the copy wait.
    plan.actions.iter_mut().for_each(|action| action.not_before.clear());
    plan.predicted = predicted(&plan);
    assert_eq!(HostDevice::new(network, trace, &plan, &options).err(), None);
    // What is left of waiting is what makes it safe, or what makes it right.
    let unordered = |copy: usize| {
        let mut plan = plan.clone();
        plan.actions[copy].after.clear();
        plan.predicted = predicted(&plan);
        match HostDevice::new(network, trace, &plan, &options).err() {
            Some(DeviceError::Contract(ContractError::UnorderedUpdate { .. })) => true,
            Some(DeviceError::Unsafe(_)) => false,
            other => panic!("{other:?}"),
        }
    };
    let copies = (0..plan.actions.len())
        .filter(|i| matches!(plan.actions[*i].task, Task::D2h(_)))
        .filter(|i| !plan.actions[*i].after.is_empty());
    assert!(copies.filter(|copy| unordered(*copy)).count() > 0);
}

/// What an edited plan would say of itself, so that it is refused for what was edited.
fn predicted(plan: &schema::Plan) -> schema::Predicted {
    schema::Predicted { bound: None, ..figures(plan) }
}

#[test]
fn plans_that_cannot_be_right_or_run_are_refused() {
    let subject = Subject::small("vgg");
    let refused = |plan: &Plan| {
        let options = HostOptions::new(problem::link(1_000));
        let error = HostDevice::new(&subject.network, &subject.trace, plan, &options).err();
        error.expect("it is refused")
    };
    let in_core = subject.plan("in-core", 105, false, None);
    let mut plan = in_core.clone();
    plan.predicted.peak -= Bytes(1);
    let error = refused(&plan);
    assert!(matches!(error, DeviceError::Misstated(_)), "{error:?}");
    // Of a budget that nobody has, no more is taken than the plan uses.
    let mut plan = in_core;
    plan.budget = Bytes(1 << 58);
    let options = HostOptions::new(problem::link(1_000));
    assert!(HostDevice::new(&subject.network, &subject.trace, &plan, &options).is_ok());
    // Memory that nobody has.
    plan.buffers.iter_mut().for_each(|buffer| buffer.address += 1 << 57);
    plan.predicted = predicted(&plan);
    let error = refused(&plan);
    assert!(matches!(error, DeviceError::NoRoom(_)), "{error:?}");
    // A codec that is not there.
    let mut plan = subject.plan("cswap+", 65, false, Some(&zfp()));
    plan.codecs[0].codec = "brotli".into();
    let error = refused(&plan);
    assert!(matches!(error, DeviceError::Codec { .. }), "{error:?}");
}
