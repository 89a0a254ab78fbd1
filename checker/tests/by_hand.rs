//! Plans small enough to see what is wrong with them, each with the rule that it breaks.

use checker::{Fallback, Machine, Prepared, Random, Rule, Timing, Wanted};
use schema::{Document, Plan, Task, TensorId, Trace};

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
fn judged(plan: &Plan, trace: &Trace) -> (Option<Rule>, Option<Rule>) {
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

/// A case: what is changed, and what that breaks, by the order and under some timing.
type Case = (&'static str, fn(&mut Plan), Option<Rule>, Option<Rule>);

fn check(plan: &Plan, trace: &Trace, cases: &[Case]) {
    assert_eq!(judged(plan, trace), (None, None), "the plan itself");
    for (what, change, exact, timed) in cases {
        let mut changed = plan.clone();
        change(&mut changed);
        changed.check().expect("a case is well formed");
        assert_eq!(judged(&changed, trace), (*exact, *timed), "{what}");
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
        plan.actions[3].after = vec![schema::ActionId(2)];
        plan.actions[4].after = vec![schema::ActionId(2)];
    };
    assert_eq!(
        {
            let mut stale = plan.clone();
            copied_before(&mut stale);
            judged(&stale, &trace)
        },
        (Some(Rule::Version), Some(Rule::Version))
    );
    check(
        &plan,
        &trace,
        &[
            (
                "the copy may be made beside the change",
                |p| p.actions[3].after.clear(),
                Some(Rule::ChangedBeside),
                Some(Rule::Version),
            ),
            ("the weight itself is read", |p| p.actions[5].reads[0].0 = 0, None, None),
            (
                "the copy is what stays",
                |p| {
                    p.buffers[0].at_end = false;
                    p.buffers[5].at_end = true;
                },
                None,
                None,
            ),
            (
                "the copy changes, and the weight stays",
                |p| {
                    p.actions[5].task = Task::Run(schema::OpId(2));
                },
                Some(Rule::Operands),
                Some(Rule::Operands),
            ),
            ("nothing stays", |p| p.buffers[0].at_end = false, Some(Rule::End), Some(Rule::End)),
            (
                "the weight is there once more",
                |p| p.actions[2].reads.push(schema::BufferId(0)),
                Some(Rule::Operands),
                Some(Rule::Operands),
            ),
            (
                "an op that changes a weight runs again",
                |p| {
                    let mut again = p.actions[2].clone();
                    again.task = Task::Recompute(schema::OpId(2));
                    p.actions.push(again);
                },
                Some(Rule::Rerun),
                Some(Rule::Rerun),
            ),
            (
                "what came before the change runs again with what is there after it",
                |p| {
                    let mut again = p.actions[0].clone();
                    again.task = Task::Recompute(schema::OpId(0));
                    p.buffers.push(schema::Buffer { address: 8, ..p.buffers[1] });
                    again.writes = vec![schema::BufferId(6)];
                    p.actions.push(again);
                },
                Some(Rule::Version),
                Some(Rule::Version),
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
            (
                "no pair, and one address",
                |p| p.actions[1].in_place.clear(),
                Some(Rule::Overwritten),
                Some(Rule::Overwritten),
            ),
            (
                "no pair, and two addresses",
                |p| {
                    p.actions[1].in_place.clear();
                    p.buffers[2].address = 24;
                },
                None,
                None,
            ),
            (
                "a pair, and two addresses",
                |p| p.buffers[2].address = 24,
                Some(Rule::InPlace),
                Some(Rule::InPlace),
            ),
            (
                "a pair that the op does not have",
                |p| {
                    p.actions[0].in_place = vec![schema::InPlaceBuffers {
                        input: schema::BufferId(0),
                        output: schema::BufferId(1),
                    }];
                },
                Some(Rule::InPlace),
                Some(Rule::InPlace),
            ),
            (
                "workspace over the output",
                |p| p.buffers[3].address = 12,
                Some(Rule::Overwritten),
                Some(Rule::Overwritten),
            ),
            (
                "too little workspace",
                |p| p.buffers[3].bytes.0 = 3,
                Some(Rule::Size),
                Some(Rule::Size),
            ),
            ("too little room", |p| p.buffers[2].bytes.0 = 7, Some(Rule::Size), Some(Rule::Size)),
            ("beyond the arena", |p| p.budget.0 = 31, Some(Rule::Arena), Some(Rule::Arena)),
            (
                "in the weight's stead",
                |p| p.buffers[4].address = 4,
                Some(Rule::Overwritten),
                Some(Rule::End),
            ),
            (
                "in the stead of what is not needed any more",
                |p| p.buffers[4].address = 8,
                None,
                None,
            ),
            (
                "in the stead of what is held, though not touched",
                |p| {
                    p.buffers[4].address = 8;
                    p.actions[5].holds = vec![schema::BufferId(2)];
                },
                Some(Rule::Overwritten),
                None,
            ),
            (
                "where the copy lies that the same op reads",
                |p| p.buffers[4].address = 24,
                Some(Rule::Overwritten),
                Some(Rule::Overwritten),
            ),
            (
                "a copy is read before it is there",
                |p| p.actions[5].after.clear(),
                Some(Rule::ReadTooEarly),
                Some(Rule::ReadTooEarly),
            ),
            (
                "two constants at one address",
                |p| p.buffers[1].at_start = true,
                Some(Rule::FilledOnce),
                None,
            ),
            (
                "an op's output is taken for a constant",
                |p| {
                    p.buffers[1].at_start = true;
                    p.actions[0].writes.clear();
                },
                Some(Rule::Operands),
                Some(Rule::Operands),
            ),
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
    assert_eq!(judged(&fixed, &trace).0, Some(Rule::Size), "less than a word");
    check(
        &plan,
        &trace,
        &[
            ("nowhere to go", |p| p.actions[1].host = None, Some(Rule::Codec), Some(Rule::Codec)),
            (
                "too little room to go to",
                |p| p.host_buffers[0].bytes.0 = 31,
                Some(Rule::Size),
                Some(Rule::Size),
            ),
            (
                "what fell back is looked for elsewhere",
                |p| p.actions[5].host = Some(schema::HostBufferId(1)),
                Some(Rule::ReadTooEarly),
                Some(Rule::ReadTooEarly),
            ),
            (
                "copies go elsewhere, where nothing is if the data did worse",
                |p| {
                    p.actions[2].host = Some(schema::HostBufferId(1));
                    p.actions[3].host = Some(schema::HostBufferId(1));
                },
                Some(Rule::ReadTooEarly),
                Some(Rule::ReadTooEarly),
            ),
            (
                "the copy back has less room than was reserved",
                |p| p.buffers[3].bytes.0 = 15,
                Some(Rule::Size),
                Some(Rule::Size),
            ),
            (
                "a codec that is not what it says",
                |p| p.codecs[0].fidelity = schema::Fidelity::FixedRate,
                Some(Rule::Codec),
                Some(Rule::Codec),
            ),
            (
                "another codec undoes it",
                |p| p.buffers[3].compressed = Some(schema::CodecId(1)),
                Some(Rule::Form),
                Some(Rule::Form),
            ),
            (
                "an op reads the compressed form",
                |p| p.actions[6].reads[0].0 = 3,
                Some(Rule::Operands),
                Some(Rule::Operands),
            ),
            (
                "the compressed form is copied into the tensor itself",
                |p| {
                    p.actions[5].task = Task::H2d(TensorId(0));
                    p.actions[5].reads.clear();
                    p.actions[6].after = vec![schema::ActionId(5)];
                },
                Some(Rule::Form),
                Some(Rule::Form),
            ),
            (
                "made twice, and looked for where the other one may have fallen back",
                |p| {
                    p.budget.0 = 216;
                    p.buffers.push(schema::Buffer { address: 200, ..p.buffers[1] });
                    let mut again = p.actions[1].clone();
                    again.writes = vec![schema::BufferId(6)];
                    again.host = Some(schema::HostBufferId(1));
                    p.actions.insert(2, again);
                    p.actions[4].after = vec![schema::ActionId(3)];
                    p.actions[6].after = vec![schema::ActionId(4)];
                    p.actions[6].reads = vec![schema::BufferId(6)];
                },
                Some(Rule::ChangedBeside),
                Some(Rule::ChangedBeside),
            ),
            (
                "where the raw tensor still lies when it comes back",
                |p| p.buffers[4].address = 16,
                Some(Rule::Overwritten),
                Some(Rule::Overwritten),
            ),
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
    assert_eq!(rule(|p| p.predicted.arena.0 = 31), Some(Rule::Predicted));
    assert_eq!(rule(|p| p.predicted.host_arena.0 = 0), Some(Rule::Predicted));
    assert_eq!(rule(|p| p.predicted.peak.0 = 1000), Some(Rule::Predicted));
    assert_eq!(rule(|p| p.predicted.peak.0 = 8), Some(Rule::Predicted));
}

#[test]
fn what_the_host_makes_smaller_needs_no_room_that_is_known() {
    let (trace, plan) = update();
    check(
        &plan,
        &trace,
        &[
            (
                "the host's processor keeps less than it would need",
                |p| {
                    p.codecs = vec![zvc()];
                    p.host_buffers[0].compressed = Some(schema::CodecId(0));
                    p.host_buffers[0].bytes.0 = 1;
                },
                None,
                None,
            ),
            (
                "what it keeps is not what the next iteration goes on from",
                |p| {
                    p.codecs = vec![schema::CodecRef {
                        codec: "sz".into(),
                        parameter: Some(1e-3),
                        fidelity: schema::Fidelity::ErrorBounded,
                    }];
                    p.host_buffers[0].compressed = Some(schema::CodecId(0));
                    p.buffers[0].at_end = false;
                    p.buffers[5].at_end = true;
                },
                Some(Rule::End),
                Some(Rule::End),
            ),
            (
                "the host has no room for the tensor itself",
                |p| p.host_buffers[0].bytes.0 = 7,
                Some(Rule::Size),
                Some(Rule::Size),
            ),
        ],
    );
}

fn zvc() -> schema::CodecRef {
    let (codec, fidelity) = ("zvc".into(), schema::Fidelity::Lossless);
    schema::CodecRef { codec, parameter: None, fidelity }
}
