//! Random recordings: whatever the text, the importers return, and what they return is well formed.

use std::path::Path;

use profiler::import::{Format, ImportOptions, InPlaceOps, import};
use proptest::prelude::*;
use schema::Document;

/// Imports `text` both ways, as both kinds.
fn import_all(text: &str) {
    for format in [None, Some(Format::Dtr), Some(Format::Opgraph)] {
        for in_place in [InPlaceOps::AsRecorded, InPlaceOps::Alias] {
            let options = ImportOptions { network: None, in_place };
            match import(text, Path::new("fuzz.dtr.jsonl"), format, &options) {
                Ok(trace) => trace.check().expect("imported traces are well formed"),
                Err(error) => {
                    assert!(error.to_string().starts_with("fuzz.dtr.jsonl:"), "{error}");
                    assert!(error.to_string().len() < 2000, "{error}");
                }
            }
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]).prop_map(str::to_string)
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name(), 0..4)
}

fn number() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        12 => (0u64..50).prop_map(|n| n.to_string().into()),
        1 => any::<i64>().prop_map(|n| n.to_string().into()),
        1 => any::<u64>().prop_map(serde_json::Value::from),
        1 => Just(serde_json::Value::Null),
    ]
}

/// One instruction with what must follow it.
fn instruction() -> impl Strategy<Value = Vec<serde_json::Value>> {
    use serde_json::json;
    let memory =
        |name: &str, bytes| json!({"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": bytes});
    prop_oneof![
        1 => (name(), number()).prop_map(move |(name, bytes)| vec![
            json!({"INSTRUCTION": "CONSTANT", "NAME": name}),
            memory(&name, bytes),
        ]),
        2 => (names(), names(), number(), number(), -1i64..3).prop_map(
            move |(args, results, time, bytes, alias)| {
                let mut lines = vec![json!({
                    "INSTRUCTION": "CALL", "NAME": "mm", "ARGS": args, "RESULT": results,
                    "TIME": time,
                })];
                for name in &results {
                    lines.push(memory(name, bytes.clone()));
                    let alias = alias.to_string();
                    lines.push(json!({"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": alias}));
                }
                lines
            }
        ),
        1 => (names(), prop::collection::vec(0u64..4, 0..3), number()).prop_map(
            |(args, mutate, time)| vec![json!({
                "INSTRUCTION": "MUTATE", "NAME": "add_", "ARGS": args, "MUTATE": mutate,
                "TIME": time,
            })]
        ),
        1 => (name(), name(), any::<bool>()).prop_map(|(dst, src, from)| {
            let instruction = if from { "COPY_FROM" } else { "COPY" };
            vec![json!({"INSTRUCTION": instruction, "DST": dst, "SRC": src})]
        }),
        3 => name().prop_map(|name| vec![json!({"INSTRUCTION": "RELEASE", "NAME": name})]),
        1 => prop::sample::select(vec!["START", "BACKWARD", "x"])
            .prop_map(|a| vec![json!({"INSTRUCTION": "ANNOTATE", "ANNOTATION": a})]),
    ]
}

/// Logs that begin with two defined names, so that many of them get some way.
fn log() -> impl Strategy<Value = String> {
    prop::collection::vec(instruction(), 0..30).prop_map(|instructions| {
        let start = r#"{"INSTRUCTION":"CALL","NAME":"mm","ARGS":[],"RESULT":["a","b"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":"9"}
{"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"-1"}
{"INSTRUCTION":"MEMORY","NAME":"b","MEMORY":"7"}
{"INSTRUCTION":"ALIAS","NAME":"b","ALIAS":"-1"}
"#;
        let lines = instructions.iter().flatten().map(|line| format!("{line}\n"));
        start.to_string() + &lines.collect::<String>()
    })
}

fn graph() -> impl Strategy<Value = String> {
    let value = || {
        prop_oneof![
            8 => (-20i64..20).prop_map(serde_json::Value::from),
            4 => (0i64..20).prop_map(serde_json::Value::from),
            1 => any::<i64>().prop_map(serde_json::Value::from),
            1 => any::<f64>().prop_map(serde_json::Value::from),
            1 => Just(serde_json::Value::Null),
        ]
    };
    let small = || prop_oneof![40 => (0u64..9).prop_map(serde_json::Value::from), 1 => value()];
    let name = prop::sample::select(vec!["flatten", "relu_", "add_", "mm", "loss"]);
    let phase = prop::sample::select(vec!["forward", "forward", "backward", "loss"]);
    let inputs = prop::collection::vec(0u64..8, 0..3);
    let op = (name, phase, small(), small(), value(), inputs, small()).prop_map(
        |(name, phase, time, output, workspace, inputs, fixed)| {
            serde_json::json!({
                "name": name, "phase": phase, "time_ms": time, "recompute_ms": time,
                "output_bytes": output, "workspace_bytes": workspace, "inputs": inputs,
                "fixed_bytes": fixed,
            })
        },
    );
    prop::collection::vec(op, 0..10).prop_map(|mut ops| {
        for (id, op) in ops.iter_mut().enumerate() {
            op["id"] = id.into();
            // Mostly ops that have run: the first ones read nothing.
            if let Some(inputs) = op["inputs"].as_array_mut() {
                inputs.retain(|input| input.as_u64() < Some(id.max(1) as u64));
            }
        }
        serde_json::json!({"format": "opgraph/1", "network": "n", "ops": ops}).to_string()
    })
}

/// `text` with some bytes replaced, removed or repeated, where that leaves it UTF-8.
fn mutated(text: &str, edits: &[(prop::sample::Index, u8, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (place, kind, byte) in edits {
        let at = place.index(bytes.len().max(1)).min(bytes.len());
        let last = bytes.len().saturating_sub(1);
        match kind % 4 {
            _ if bytes.is_empty() => bytes.push(*byte),
            0 => bytes[at.min(last)] = *byte,
            1 => drop(bytes.remove(at.min(last))),
            2 => bytes.insert(at, *byte),
            _ => bytes.extend_from_within(at..),
        }
        bytes.truncate(1 << 16);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    let byte = prop_oneof![Just(b'0'), Just(b'"'), Just(b'9'), Just(b'-'), any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), byte), 1..6)
}

proptest! {
    #[test]
    fn logs_of_random_instructions(text in log()) {
        import_all(&text);
    }

    #[test]
    fn logs_with_random_edits(text in log(), edits in edits()) {
        import_all(&mutated(&text, &edits));
    }

    #[test]
    fn random_graphs(text in graph()) {
        import_all(&text);
    }

    #[test]
    fn graphs_with_random_edits(text in graph(), edits in edits()) {
        import_all(&mutated(&text, &edits));
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        import_all(&String::from_utf8_lossy(&bytes));
    }
}

/// Every prefix of a whole small recording.
#[test]
fn every_truncation() {
    let log = r#"{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}
{"INSTRUCTION":"CALL","NAME":"mm","ARGS":[],"RESULT":["a"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":"9"}
{"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"-1"}
{"INSTRUCTION":"MUTATE","NAME":"add_","ARGS":["a"],"MUTATE":[0],"TIME":"5"}
{"INSTRUCTION":"RELEASE","NAME":"a"}
"#;
    let graph = r#"{"format":"opgraph/1","network":"n","ops":[{"id":0,"name":"mm","phase":"forward",
"time_ms":1,"recompute_ms":2,"output_bytes":3,"workspace_bytes":-4,"inputs":[],"fixed_bytes":5}]}"#;
    for text in [log, graph] {
        for end in 0..=text.len() {
            import_all(&text[..end]);
        }
    }
}

/// Long lists cost time in proportion: these would not end if the cost were quadratic.
#[test]
fn long_lists() {
    let many = 200_000;
    let names: Vec<String> = (0..many).map(|i| format!("\"n{i}\"")).collect();
    let names = names.join(",");
    let mut log = format!(
        "{{\"INSTRUCTION\":\"CALL\",\"NAME\":\"f\",\"ARGS\":[],\"RESULT\":[{names}],\"TIME\":\"1\"}}\n"
    );
    import_all(&log);
    for i in 0..many {
        log.push_str(&format!(
            "{{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"n{i}\",\"MEMORY\":\"1\"}}\n\
             {{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"n{i}\",\"ALIAS\":\"-1\"}}\n"
        ));
    }
    let indices: Vec<String> = (0..many).map(|i| i.to_string()).collect();
    let indices = indices.join(",");
    log.push_str(&format!(
        "{{\"INSTRUCTION\":\"MUTATE\",\"NAME\":\"f_\",\"ARGS\":[{names}],\"MUTATE\":[{indices}],\"TIME\":\"1\"}}\n"
    ));
    let options = ImportOptions { network: None, in_place: InPlaceOps::Alias };
    let trace = import(&log, Path::new("long.dtr.jsonl"), None, &options).expect("a whole log");
    assert_eq!(trace.ops[1].in_place.len(), many);
}
