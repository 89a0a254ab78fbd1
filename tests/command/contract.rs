//! What `verify` refuses although it is safe in memory: plans that compute another thing than their
//! trace, or are not what they say.

use schema::{
    Action, ActionId, Buffer, BufferId, Bytes, Document, Fidelity, HostBuffer, HostBufferId, Nanos,
    Plan, Predicted, Task, TensorId,
};
use simulator::figures;

use crate::sandbox::Sandbox;

/// A weight is used, updated in place, and used again; the last op may lie over its input.
const TRACE: &str = include_str!("inputs/updated.json");

/// A plan, and what `verify` says of it after an edit.
struct Case {
    sandbox: Sandbox,
    trace: &'static str,
    plan: Plan,
}

impl Case {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("trace.json", TRACE);
        let case = Self::of(sandbox, "trace.json", "-m titan-v -b 1MiB --method in-core");
        assert_eq!(case.plan.actions.len(), 4, "one action for each op");
        case
    }

    fn with_codecs(codecs: &str) -> Self {
        let options = format!("--codecs {codecs} --lossy --sparsity 60% --allow keep,compress");
        let trace = "tests/recordings/small.dtr.jsonl";
        Self::of(Sandbox::new(), trace, &format!("-m titan-v -b 60% {options} --method tide"))
    }

    fn of(sandbox: Sandbox, trace: &'static str, options: &str) -> Self {
        sandbox.ok(&format!("plan {trace} {options} -o plan.json"));
        let plan = Plan::read(&sandbox.path("plan.json")).expect("a plan");
        Self { sandbox, trace, plan }
    }

    /// What `verify` prints with a code of a plan that states its figures as they are.
    fn says(&self, mut plan: Plan, code: i32) -> String {
        plan.predicted = Predicted { bound: None, ..figures(&plan) };
        self.says_as_stated(&plan, code)
    }

    fn says_as_stated(&self, plan: &Plan, code: i32) -> String {
        plan.write(&self.sandbox.path("edited.json")).expect("the folder is writable");
        let run = self.sandbox.run(&format!("verify edited.json --trace {}", self.trace));
        assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
        run.stdout + &run.stderr
    }

    /// The plan in which the weight is also copied out, `before` or after it is updated, and a copy
    /// of it brought back for the op that uses it last.
    fn with_copies(&self, before: bool) -> Plan {
        let mut plan = self.plan.clone();
        let weight = plan.actions[0].reads[0];
        let room = plan.buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or(0);
        plan.host_budget = Bytes(4096);
        plan.host_buffers = vec![HostBuffer::new(TensorId(0), 0, Bytes(4096))];
        let back = BufferId::from_index(plan.buffers.len());
        plan.buffers.push(Buffer::new(Some(TensorId(0)), room, Bytes(4096)));
        let copy = |task, after, reads, writes| {
            let host = Some(HostBufferId(0));
            Action { after, reads, writes, host, ..Action::new(task, Nanos(1000)) }
        };
        let at = if before { 0 } else { 2 };
        let out = copy(Task::D2h(TensorId(0)), Vec::new(), vec![weight], Vec::new());
        plan.actions.insert(at, out);
        let out = ActionId::from_index(at);
        plan.actions.insert(3, copy(Task::H2d(TensorId(0)), vec![out], Vec::new(), vec![back]));
        plan.actions[4].reads[0] = back;
        plan.actions[4].after = vec![ActionId(3)];
        plan
    }
}

#[test]
fn a_weight_from_before_its_update_is_refused() {
    let case = Case::new();
    case.says(case.plan.clone(), 0);
    let mut stale = case.with_copies(true);
    // The update comes after the copy, which nothing else says.
    stale.actions[2].after = vec![ActionId(0)];
    insta::assert_snapshot!(case.says(stale, 4));
}

#[test]
fn pacing_does_not_make_a_copy_wait_for_an_update() {
    let case = Case::new();
    let mut plan = case.with_copies(false);
    // In the list the copy out follows the update, action 1.
    plan.actions[2].not_before = vec![ActionId(1)];
    insta::assert_snapshot!(case.says(plan.clone(), 4));
    plan.actions[2].after = std::mem::take(&mut plan.actions[2].not_before);
    case.says(plan, 0);
}

#[test]
fn a_weight_that_stays_as_it_was_before_its_update_is_refused() {
    let case = Case::new();
    let mut plan = case.with_copies(true);
    plan.actions[2].after = vec![ActionId(0)];
    let weight = plan.actions[1].reads[0];
    plan.actions[4].reads[0] = weight;
    // The op that uses it last reads it where it was updated; the old copy is what stays.
    plan.buffers[weight.index()].at_end = false;
    plan.buffers.last_mut().expect("the copy").at_end = true;
    insta::assert_snapshot!(case.says(plan, 4));
}

#[test]
fn an_output_that_does_not_lie_over_its_input_is_refused() {
    let case = Case::new();
    let mut plan = case.plan.clone();
    let pair = plan.actions[3].in_place.first().copied().expect("the plan lays it over");
    plan.buffers[pair.output.index()].address += 4096 * 16;
    insta::assert_snapshot!(case.says(plan, 4));
}

#[test]
fn a_plan_that_misstates_its_figures_is_refused() {
    let case = Case::new();
    let refused = |forge: fn(&mut Predicted)| {
        let mut plan = case.plan.clone();
        forge(&mut plan.predicted);
        let printed = case.says_as_stated(&plan, 4);
        assert_eq!(case.sandbox.run("simulate edited.json").code, 4);
        printed
    };
    insta::assert_snapshot!(refused(|predicted| predicted.arena = Bytes(1)));
    insta::assert_snapshot!(refused(|predicted| predicted.peak = Bytes(1 << 40)));
    insta::assert_snapshot!(refused(|predicted| predicted.iteration = Nanos(1)));
}

#[test]
fn what_codecs_make_of_tensors_is_not_believed_but_known_or_said() {
    // Sizes that vary, and where the data goes that does worse.
    let zvc = Case::with_codecs("zvc");
    insta::assert_snapshot!(zvc.says(zvc.plan.clone(), 0));
    // The same codec as one of fixed rate, which needs no way out.
    let mut fixed = zvc.plan.clone();
    fixed.codecs.iter_mut().for_each(|codec| codec.fidelity = Fidelity::FixedRate);
    fixed.actions.iter_mut().for_each(|action| action.host = None);
    fixed.host_buffers.clear();
    insta::assert_snapshot!(zvc.says(fixed, 4));
    // A codec that nobody here knows.
    let mut unknown = zvc.plan.clone();
    unknown.codecs.iter_mut().for_each(|codec| codec.codec = "squeeze".into());
    insta::assert_snapshot!(zvc.says(unknown, 0));
    // A fixed rate whose size is known, for which too little is reserved.
    let zfp = Case::with_codecs("zfp");
    let mut rate = zfp.plan.clone();
    let compressed = rate.buffers.iter_mut().find(|buffer| buffer.compressed.is_some());
    let compressed = compressed.expect("the plan compresses");
    compressed.bytes = Bytes(compressed.bytes.0 - 8);
    insta::assert_snapshot!(zfp.says(rate, 4));
}
