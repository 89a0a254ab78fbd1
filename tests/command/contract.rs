//! What `verify` refuses although it is safe in memory: plans that compute another thing than their
//! trace, or are not what they say.

use schema::{
    Action, ActionId, Buffer, BufferId, Bytes, Document, Fidelity, HostBuffer, HostBufferId, Nanos,
    Plan, Predicted, Task, TensorId,
};
use simulator::Figures;

use crate::sandbox::Sandbox;

/// A weight is used, updated in place, and used again; the last op may lie over its input.
const TRACE: &str = r#"{"format":"tidegate/trace","version":1,"content":{
    "network":"updated","provenance":{"origin":"modelled","device":"none","source":"by hand"},
    "tensors":[
        {"name":"weight","bytes":4096,"role":"parameter","dtype":"f32"},
        {"name":"before","bytes":4096,"role":"activation","dtype":"f32"},
        {"name":"after","bytes":4096,"role":"activation","dtype":"f32"},
        {"name":"over","bytes":4096,"role":"activation","dtype":"f32"}],
    "ops":[
        {"name":"use","kind":"matrix_product","phase":"forward","duration_ns":100000,
         "reads":[0],"writes":[1]},
        {"name":"update","kind":"optimizer","phase":"update","duration_ns":100000,
         "reads":[0,1],"writes":[],"frees":[1],"rerunnable":false},
        {"name":"use","kind":"matrix_product","phase":"forward","duration_ns":100000,
         "reads":[0],"writes":[2]},
        {"name":"relu","kind":"activation","phase":"forward","duration_ns":100000,
         "reads":[2],"writes":[3],"in_place":[{"input":2,"output":3}],"frees":[2]}]}}"#;

/// The plan that keeps everything, and whether `verify` takes it after an edit.
struct Case {
    sandbox: Sandbox,
    plan: Plan,
}

impl Case {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("trace.json", TRACE);
        sandbox.ok("plan trace.json -m titan-v -b 1MiB --method in-core -o plan.json");
        let plan = Plan::read(&sandbox.path("plan.json")).expect("a plan");
        assert_eq!(plan.actions.len(), 4, "one action for each op");
        Self { sandbox, plan }
    }

    /// What `verify` prints of a plan that states its figures as they are.
    fn verify(&self, mut plan: Plan) -> (i32, String) {
        let Figures { iteration, peak, arena, host_arena } = Figures::of(&plan);
        plan.predicted = Predicted { iteration, peak, arena, host_arena, bound: None };
        self.verify_as_stated(&plan)
    }

    fn verify_as_stated(&self, plan: &Plan) -> (i32, String) {
        plan.write(&self.sandbox.path("edited.json")).expect("the folder is writable");
        let run = self.sandbox.run("verify edited.json --trace trace.json");
        (run.code, run.stdout + &run.stderr)
    }

    /// The plan in which the weight is also copied out, `before` or after it is updated, and a copy
    /// of it brought back for the op that uses it last.
    fn with_copies(&self, before: bool) -> Plan {
        let mut plan = self.plan.clone();
        let weight = plan.actions[0].reads[0];
        let room = plan.buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or(0);
        plan.host_budget = Bytes(4096);
        plan.host_buffers = vec![HostBuffer {
            tensor: TensorId(0),
            address: 0,
            bytes: Bytes(4096),
            compressed: None,
        }];
        let back = BufferId::from_index(plan.buffers.len());
        plan.buffers.push(Buffer {
            tensor: Some(TensorId(0)),
            address: room,
            bytes: Bytes(4096),
            compressed: None,
            at_start: false,
            at_end: false,
        });
        let copy = |task, after, reads, writes| Action {
            task,
            duration: Nanos(1000),
            after,
            not_before: Vec::new(),
            reads,
            writes,
            holds: Vec::new(),
            in_place: Vec::new(),
            host: Some(HostBufferId(0)),
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
    assert_eq!(case.verify(case.plan.clone()).0, 0);
    let mut stale = case.with_copies(true);
    // The update comes after the copy, which nothing else says.
    stale.actions[2].after = vec![ActionId(0)];
    let (code, printed) = case.verify(stale);
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn pacing_does_not_make_a_copy_wait_for_an_update() {
    let case = Case::new();
    let mut plan = case.with_copies(false);
    // In the list the copy out follows the update, action 1.
    plan.actions[2].not_before = vec![ActionId(1)];
    let (code, printed) = case.verify(plan.clone());
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
    plan.actions[2].after = std::mem::take(&mut plan.actions[2].not_before);
    let (code, printed) = case.verify(plan);
    assert_eq!(code, 0, "{printed}");
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
    let (code, printed) = case.verify(plan);
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn an_output_that_does_not_lie_over_its_input_is_refused() {
    let case = Case::new();
    let mut plan = case.plan.clone();
    let pair = plan.actions[3].in_place.first().copied().expect("the plan lays it over");
    plan.buffers[pair.output.index()].address += 4096 * 16;
    let (code, printed) = case.verify(plan);
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn a_plan_that_misstates_its_figures_is_refused() {
    let case = Case::new();
    let refused = |forge: fn(&mut Predicted)| {
        let mut plan = case.plan.clone();
        forge(&mut plan.predicted);
        let (code, printed) = case.verify_as_stated(&plan);
        assert_eq!(code, 4, "{printed}");
        assert_eq!(case.sandbox.run("simulate edited.json").code, 4);
        printed
    };
    insta::assert_snapshot!(refused(|predicted| predicted.arena = Bytes(1)));
    insta::assert_snapshot!(refused(|predicted| predicted.peak = Bytes(1 << 40)));
    insta::assert_snapshot!(refused(|predicted| predicted.iteration = Nanos(1)));
}

#[test]
fn what_codecs_make_of_tensors_is_not_believed_but_known_or_said() {
    let sandbox = Sandbox::new();
    let trace = "tests/recordings/small.dtr.jsonl";
    let options = "-m titan-v -b 60% --codecs all --lossy --sparsity 60% --allow keep,compress";
    let plan = |codecs: &str| {
        let options = options.replace("--codecs all", &format!("--codecs {codecs}"));
        sandbox.ok(&format!("plan {trace} {options} --method tide -o plan.json"));
        Plan::read(&sandbox.path("plan.json")).expect("a plan")
    };
    let verify = |mut plan: Plan| {
        let Figures { iteration, peak, arena, host_arena } = Figures::of(&plan);
        plan.predicted = Predicted { iteration, peak, arena, host_arena, bound: None };
        plan.write(&sandbox.path("edited.json")).expect("the folder is writable");
        let run = sandbox.run(&format!("verify edited.json --trace {trace}"));
        (run.code, run.stdout + &run.stderr)
    };
    // Sizes that vary, and where the data goes that does worse.
    let zvc = plan("zvc");
    let (code, printed) = verify(zvc.clone());
    assert_eq!(code, 0, "{printed}");
    insta::assert_snapshot!(printed);
    // The same codec as one of fixed rate, which needs no way out.
    let mut fixed = zvc.clone();
    fixed.codecs.iter_mut().for_each(|codec| codec.fidelity = Fidelity::FixedRate);
    fixed.actions.iter_mut().for_each(|action| action.host = None);
    fixed.host_buffers.clear();
    let (code, printed) = verify(fixed);
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
    // A codec that nobody here knows.
    let mut unknown = zvc;
    unknown.codecs.iter_mut().for_each(|codec| codec.codec = "squeeze".into());
    let (code, printed) = verify(unknown);
    assert_eq!(code, 0, "{printed}");
    insta::assert_snapshot!(printed);
    // A fixed rate whose size is known, for which too little is reserved.
    let mut rate = plan("zfp");
    let compressed = rate.buffers.iter_mut().find(|buffer| buffer.compressed.is_some());
    let compressed = compressed.expect("the plan compresses");
    compressed.bytes = Bytes(compressed.bytes.0 - 8);
    let (code, printed) = verify(rate);
    assert_eq!(code, 4, "{printed}");
    insta::assert_snapshot!(printed);
}
