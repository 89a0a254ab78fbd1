//! Whole iterations as a CUDA device is told them.

use std::collections::BTreeSet;

use planner::methods::by_name;
use planner::{NoMonitor, Problem};
use runtime::cuda::commands::{CommandError, Commands, Shares};
use runtime::cuda::launches::Means;
use schema::{ActionId, Bytes, BytesPerSec};
use simulator::HappensBefore;

use crate::networks;
use crate::problem::{Subject, machine, zvc};

const SHARES: Shares = Shares { layers: Means::kernels(16), codecs: 3 };

/// What streams wait for orders all that the plan orders, and nothing is waited for twice.
#[test]
fn waits_order_what_the_plan_orders() {
    let subject = Subject::small("vgg");
    for (method, percent, codec_lane) in
        [("swap-all", 60, false), ("tide", 70, true), ("cswap", 70, true)]
    {
        let models = zvc(300);
        let codecs = by_name(method).unwrap().needs_codecs().then_some(&models);
        let plan = subject.plan(method, percent, codec_lane, codecs);
        let commands = Commands::new(&plan, &subject.network, SHARES, &BTreeSet::new()).unwrap();
        let mut order = HappensBefore::default();
        for issue in &commands.issues {
            let known = |on: &ActionId, order: &HappensBefore| {
                let before = &commands.issues[..issue.action.index()];
                let own = before.iter().rev().find(|other| other.lane == issue.lane);
                own.is_some_and(|own| order.ends_before(*on, own.action))
            };
            for on in &issue.waits {
                assert_ne!(commands.issues[on.index()].lane, issue.lane, "{method}");
                assert!(!known(on, &order), "{method}: {} knows of {on}", issue.action);
            }
            order.push(issue.lane, &issue.waits);
        }
        for (index, action) in plan.actions.iter().enumerate() {
            let action_id = ActionId::from_index(index);
            for on in action.after.iter().chain(&action.not_before) {
                assert!(order.ends_before(*on, action_id), "{method}: {on} before {action_id}");
            }
        }
        let events: usize = commands.issues.iter().map(|issue| issue.waits.len()).sum();
        let edges: usize = plan.actions.iter().map(|action| action.after.len()).sum();
        eprintln!("{method}: {events} waits between streams for {edges} edges");
    }
}

#[test]
fn what_has_no_kernel_is_refused_before_anything_starts() {
    let subject = Subject::small("vgg");
    let mut models = zvc(300);
    models.models[0].codec = "lz4".into();
    let plan = subject.plan("cswap", 70, true, Some(&models));
    let error = Commands::new(&plan, &subject.network, SHARES, &BTreeSet::new())
        .expect_err("lz4 compresses on the host");
    assert!(matches!(&error, CommandError::Codec { codec, .. } if codec.codec == "lz4"), "{error}");
}

#[test]
fn updates_on_the_hosts_processor_are_refused_before_anything_starts() {
    let subject = Subject::new(networks::small("vgg"));
    let mut machine = machine(false);
    machine.host.updates = Some(BytesPerSec(10_000_000_000));
    let problem = Problem::new(&subject.trace, &machine, Bytes(1 << 30));
    let method = by_name("zero-offload").expect("a method");
    let plan = planner::plan(method.as_ref(), &problem, &NoMonitor).expect("there is room");
    let made = Commands::new(&plan.into_plan(), &subject.network, SHARES, &BTreeSet::new());
    let error = made.expect_err("the device alone computes");
    assert!(matches!(&error, CommandError::ThereAlone { .. }), "{error}");
    assert!(error.to_string().contains("host"), "{error}");
}
