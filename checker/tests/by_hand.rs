//! Plans small enough to see what is wrong with them, each with the rule that it breaks.

use checker::Rule::{self, *};
use checker::{Fallback, Machine, Prepared, Random, Timing, Wanted};
use schema::{
    ActionId, BufferId, CodecId, CodecRef, Document, Fidelity, HostBufferId, OpId, Plan, Task,
    TensorId, Trace,
};

use std::path::Path;

/// Something out of the text of a document's content.
fn read<D: Document>(content: &str) -> D {
    let (format, version) = (D::FORMAT, D::VERSION);
    let text =
        format!(r#"{{"format": "{format}", "version": {version}, "content": {{{content}}}}}"#);
    D::from_json(&text, Path::new("by hand")).expect("a case is well formed")
}

fn trace(tensors: &[(&str, u64)], ops: &str) -> Trace {
    let tensor = |(name, bytes): &(&str, u64)| {
        format!(r#"{{"name": "{name}", "bytes": {bytes}, "role": "activation"}}"#)
    };
    let tensors: Vec<String> = tensors.iter().map(tensor).collect();
    let op = |op: &str| {
        format!(r#"{{"name": "op", "kind": "other", "phase": "forward", "duration_ns": 1, {op}}}"#)
    };
    let ops: Vec<String> = ops.trim().lines().map(op).collect();
    let provenance = r#"{"origin": "modelled", "device": "none", "source": "by hand"}"#;
    read(&format!(
        r#""network": "by hand", "provenance": {provenance}, "tensors": [{}], "ops": [{}]"#,
        tensors.join(","),
        ops.join(",")
    ))
}

fn plan(budget: u64, host: u64, lists: &str, actions: &str) -> Plan {
    let digest = format!("sha256:{}", "0".repeat(64));
    let reference = format!(r#"{{"name": "none", "digest": "{digest}"}}"#);
    let action = |action: &str| format!(r#"{{"duration_ns": 1, {action}}}"#);
    let actions: Vec<String> = actions.trim().lines().map(action).collect();
    read(&format!(
        r#""method": "by hand", "trace": {reference}, "machine": {reference}, "budget_bytes": {budget},
           "host_budget_bytes": {host}, "both_directions_permille": 1000, "decisions": [], {lists},
           "actions": [{}], "predicted": {{"iteration_ns": 1, "peak_bytes": 24, "arena_bytes": {budget},
           "host_arena_bytes": {host}}}"#,
        actions.join(",")
    ))
}

/// What is wrong with a plan: by its order, and under one of many timings.
fn judged(plan: &Plan, trace: &Trace) -> Broken {
    let wanted = Wanted::of(trace);
    let prepared = match Prepared::new(plan, &wanted) {
        Ok(prepared) => prepared,
        Err(wrong) => return (Some(wrong.rule), Some(wrong.rule)),
    };
    let mut machine = Machine::new(&prepared);
    let under_timings = (0..500).find_map(|seed| {
        let mut random = Random::new(seed);
        let mut timing = Timing::drawn(&mut random);
        machine.run(&mut timing, Fallback::Drawn, &mut random).err().map(|wrong| wrong.rule)
    });
    (prepared.check().err().map(|wrong| wrong.rule), under_timings)
}

/// What breaks by the order, and under some timing.
type Broken = (Option<Rule>, Option<Rule>);

const FINE: Broken = (None, None);

fn both(rule: Rule) -> Broken {
    (Some(rule), Some(rule))
}

/// What is changed, what that breaks, and the change.
type Case = (&'static str, Broken, fn(&mut Plan));

fn case(what: &'static str, broken: Broken, change: fn(&mut Plan)) -> Case {
    (what, broken, change)
}

fn check(plan: &Plan, trace: &Trace, cases: &[Case]) {
    assert_eq!(judged(plan, trace), FINE, "the plan itself");
    for (what, broken, change) in cases {
        let mut changed = plan.clone();
        change(&mut changed);
        changed.check().expect("a case is well formed");
        assert_eq!(judged(&changed, trace), *broken, "{what}");
    }
}

/// A weight that an op changes, an output over an input, and an op behind the change.
fn update() -> (Trace, Plan) {
    let trace = trace(
        &[("w", 8), ("x", 8), ("y", 8), ("z", 8)],
        r#"
"reads": [0], "writes": [1]
"reads": [1], "writes": [2], "in_place": [{"input": 1, "output": 2}], "frees": [1], "workspace_bytes": 4
"reads": [0, 2], "writes": [], "frees": [2], "rerunnable": false
"reads": [0], "writes": [3]"#,
    );
    let plan = plan(
        32,
        8,
        r#""buffers": [{"tensor": 0, "address": 0, "bytes": 8, "at_start": true, "at_end": true},
            {"tensor": 1, "address": 8, "bytes": 8}, {"tensor": 2, "address": 8, "bytes": 8},
            {"address": 16, "bytes": 4}, {"tensor": 3, "address": 16, "bytes": 8, "at_end": true},
            {"tensor": 0, "address": 24, "bytes": 8}],
           "host_buffers": [{"tensor": 0, "address": 0, "bytes": 8}]"#,
        r#"
"task": {"run": 0}, "reads": [0], "writes": [1]
"task": {"run": 1}, "reads": [1], "writes": [2, 3], "in_place": [{"input": 1, "output": 2}]
"task": {"run": 2}, "reads": [0, 2]
"task": {"d2h": 0}, "reads": [0], "host": 0, "after": [2]
"task": {"h2d": 0}, "writes": [5], "host": 0, "after": [3]
"task": {"run": 3}, "reads": [5], "writes": [4], "after": [4]"#,
    );
    (trace, plan)
}

#[test]
fn what_changes_in_place_is_read_in_its_version() {
    let (trace, plan) = update();
    // A copy from before the change, that is there in time.
    let copied_before = |plan: &mut Plan| {
        plan.actions[3].after = Vec::new();
        plan.actions.swap(2, 3);
        plan.actions[3].after = vec![ActionId(2)];
        plan.actions[4].after = vec![ActionId(2)];
    };
    assert_eq!(
        {
            let mut stale = plan.clone();
            copied_before(&mut stale);
            judged(&stale, &trace)
        },
        both(Version)
    );
    check(
        &plan,
        &trace,
        &[
            case(
                "the copy may be made beside the change",
                (Some(ChangedBeside), Some(Version)),
                |p| p.actions[3].after.clear(),
            ),
            case("the weight itself is read", FINE, |p| p.actions[5].reads[0].0 = 0),
            case("the copy is what stays", FINE, |p| {
                p.buffers[0].at_end = false;
                p.buffers[5].at_end = true;
            }),
            case("the copy changes, and the weight stays", both(Operands), |p| {
                p.actions[5].task = Task::Run(OpId(2));
            }),
            case("nothing stays", both(End), |p| p.buffers[0].at_end = false),
            case("the weight is there once more", both(Operands), |p| {
                p.actions[2].reads.push(BufferId(0))
            }),
            case("an op that changes a weight runs again", both(Rerun), |p| {
                let mut again = p.actions[2].clone();
                again.task = Task::Recompute(OpId(2));
                p.actions.push(again);
            }),
            case(
                "what came before the change runs again with what is there after it",
                both(Version),
                |p| {
                    let mut again = p.actions[0].clone();
                    again.task = Task::Recompute(OpId(0));
                    p.buffers.push(schema::Buffer { address: 8, ..p.buffers[1] });
                    again.writes = vec![BufferId(6)];
                    p.actions.push(again);
                },
            ),
        ],
    );
}

#[test]
fn memory_is_there_for_what_it_holds() {
    let (trace, plan) = update();
    check(
        &plan,
        &trace,
        &[
            case("no pair, and one address", both(Overwritten), |p| p.actions[1].in_place.clear()),
            case("no pair, and two addresses", FINE, |p| {
                p.actions[1].in_place.clear();
                p.buffers[2].address = 24;
            }),
            case("a pair, and two addresses", both(InPlace), |p| p.buffers[2].address = 24),
            case("a pair that the op does not have", both(InPlace), |p| {
                p.actions[0].in_place =
                    vec![schema::InPlaceBuffers { input: BufferId(0), output: BufferId(1) }];
            }),
            case("workspace over the output", both(Overwritten), |p| p.buffers[3].address = 12),
            case("too little workspace", both(Size), |p| p.buffers[3].bytes.0 = 3),
            case("too little room", both(Size), |p| p.buffers[2].bytes.0 = 7),
            case("beyond the arena", both(Arena), |p| p.budget.0 = 31),
            case("in the weight's stead", (Some(Overwritten), Some(End)), |p| {
                p.buffers[4].address = 4
            }),
            case("in the stead of what is not needed any more", FINE, |p| p.buffers[4].address = 8),
            case(
                "in the stead of what is held, though not touched",
                (Some(Overwritten), None),
                |p| {
                    p.buffers[4].address = 8;
                    p.actions[5].holds = vec![BufferId(2)];
                },
            ),
            case("where the copy lies that the same op reads", both(Overwritten), |p| {
                p.buffers[4].address = 24
            }),
            case("a copy is read before it is there", both(ReadTooEarly), |p| {
                p.actions[5].after.clear()
            }),
            case("two constants at one address", (Some(FilledOnce), None), |p| {
                p.buffers[1].at_start = true
            }),
            case("an op's output is taken for a constant", both(Operands), |p| {
                p.buffers[1].at_start = true;
                p.actions[0].writes.clear();
            }),
        ],
    );
}

/// A tensor that is made smaller, leaves and comes back, while another lies where it was.
fn compressed() -> (Trace, Plan) {
    let trace = trace(
        &[("x", 32), ("y", 32), ("z", 4)],
        r#"
"reads": [], "writes": [0]
"reads": [], "writes": [1]
"reads": [0, 1], "writes": [2], "frees": [0, 1]"#,
    );
    let plan = plan(
        68,
        64,
        r#""codecs": [{"codec": "zvc", "fidelity": "lossless"}, {"codec": "zfp", "parameter": 8.0, "fidelity": "fixed_rate"}],
           "buffers": [{"tensor": 0, "address": 0, "bytes": 32}, {"tensor": 0, "address": 32, "bytes": 16, "compressed": 0},
            {"tensor": 1, "address": 0, "bytes": 32}, {"tensor": 0, "address": 48, "bytes": 16, "compressed": 0},
            {"tensor": 0, "address": 0, "bytes": 32}, {"tensor": 2, "address": 64, "bytes": 4, "at_end": true}],
           "host_buffers": [{"tensor": 0, "address": 0, "bytes": 32, "compressed": 0},
            {"tensor": 0, "address": 32, "bytes": 32, "compressed": 0}]"#,
        r#"
"task": {"run": 0}, "writes": [0]
"task": {"compress": 0}, "reads": [0], "writes": [1], "host": 0
"task": {"d2h": 0}, "reads": [1], "host": 0, "after": [1]
"task": {"h2d": 0}, "writes": [3], "host": 0, "after": [2]
"task": {"run": 1}, "writes": [2]
"task": {"decompress": 0}, "reads": [3], "writes": [4], "host": 0, "after": [3]
"task": {"run": 2}, "reads": [4, 2], "writes": [5]"#,
    );
    (trace, plan)
}

#[test]
fn compressed_forms_come_back_whatever_the_data() {
    let (trace, mut plan) = compressed();
    // The tensor that comes back has a place of its own.
    plan.buffers[4].address = 68;
    plan.budget.0 = 100;
    let set_codec = |plan: &mut Plan, codec: u32| {
        plan.buffers.iter_mut().filter_map(|b| b.compressed.as_mut()).for_each(|c| c.0 = codec);
        plan.host_buffers
            .iter_mut()
            .filter_map(|b| b.compressed.as_mut())
            .for_each(|c| c.0 = codec);
    };
    let mut fixed = plan.clone();
    set_codec(&mut fixed, 1);
    assert_eq!(judged(&fixed, &trace), (None, None), "8 values of 8 bits are a word");
    fixed.host_buffers[0].bytes.0 = 8;
    fixed.actions[1].host = None;
    fixed.actions[5].host = None;
    assert_eq!(judged(&fixed, &trace), (None, None), "of fixed rate: no way out is needed");
    fixed.buffers[3].bytes.0 = 7;
    assert_eq!(judged(&fixed, &trace).0, Some(Size), "less than a word");
    check(
        &plan,
        &trace,
        &[
            case("nowhere to go", both(Codec), |p| p.actions[1].host = None),
            case("too little room to go to", both(Size), |p| p.host_buffers[0].bytes.0 = 31),
            case("what fell back is looked for elsewhere", both(ReadTooEarly), |p| {
                p.actions[5].host = Some(HostBufferId(1))
            }),
            case(
                "copies go elsewhere, where nothing is if the data did worse",
                both(ReadTooEarly),
                |p| {
                    p.actions[2].host = Some(HostBufferId(1));
                    p.actions[3].host = Some(HostBufferId(1));
                },
            ),
            case("the copy back has less room than was reserved", both(Size), |p| {
                p.buffers[3].bytes.0 = 15
            }),
            case("a codec that is not what it says", both(Codec), |p| {
                p.codecs[0].fidelity = Fidelity::FixedRate
            }),
            case("another codec undoes it", both(Form), |p| {
                p.buffers[3].compressed = Some(CodecId(1))
            }),
            case("an op reads the compressed form", both(Operands), |p| {
                p.actions[6].reads[0].0 = 3
            }),
            case("the compressed form is copied into the tensor itself", both(Form), |p| {
                p.actions[5].task = Task::H2d(TensorId(0));
                p.actions[5].reads.clear();
                p.actions[6].after = vec![ActionId(5)];
            }),
            case(
                "made twice, and looked for where the other one may have fallen back",
                both(ChangedBeside),
                |p| {
                    p.budget.0 = 216;
                    p.buffers.push(schema::Buffer { address: 200, ..p.buffers[1] });
                    let mut again = p.actions[1].clone();
                    again.writes = vec![BufferId(6)];
                    again.host = Some(HostBufferId(1));
                    p.actions.insert(2, again);
                    p.actions[4].after = vec![ActionId(3)];
                    p.actions[6].after = vec![ActionId(4)];
                    p.actions[6].reads = vec![BufferId(6)];
                },
            ),
            case("where the raw tensor still lies when it comes back", both(Overwritten), |p| {
                p.buffers[4].address = 16
            }),
        ],
    );
}

#[test]
fn what_a_plan_says_of_its_memory_is_held_against_it() {
    let (trace, plan) = update();
    let wanted = Wanted::of(&trace);
    let rule = |change: fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        let prepared = Prepared::new(&plan, &wanted).expect("only predictions differ");
        prepared.check_predicted().err().map(|wrong| wrong.rule)
    };
    assert_eq!(rule(|_| ()), None);
    assert_eq!(rule(|p| p.predicted.arena.0 = 31), Some(Predicted));
    assert_eq!(rule(|p| p.predicted.host_arena.0 = 0), Some(Predicted));
    assert_eq!(rule(|p| p.predicted.peak.0 = 1000), Some(Predicted));
    assert_eq!(rule(|p| p.predicted.peak.0 = 8), Some(Predicted));
}

#[test]
fn what_the_host_makes_smaller_needs_no_room_that_is_known() {
    let (trace, plan) = update();
    check(
        &plan,
        &trace,
        &[
            case("the host's processor keeps less than it would need", FINE, |p| {
                p.codecs = vec![zvc()];
                p.host_buffers[0].compressed = Some(CodecId(0));
                p.host_buffers[0].bytes.0 = 1;
            }),
            case("what it keeps is not what the next iteration goes on from", both(End), |p| {
                p.codecs = vec![CodecRef {
                    codec: "sz".into(),
                    parameter: Some(1e-3),
                    fidelity: Fidelity::ErrorBounded,
                }];
                p.host_buffers[0].compressed = Some(CodecId(0));
                p.buffers[0].at_end = false;
                p.buffers[5].at_end = true;
            }),
            case("the host has no room for the tensor itself", both(Size), |p| {
                p.host_buffers[0].bytes.0 = 7
            }),
        ],
    );
}

fn zvc() -> CodecRef {
    let (codec, fidelity) = ("zvc".into(), Fidelity::Lossless);
    CodecRef { codec, parameter: None, fidelity }
}
