//! Damaged, contradictory and hostile recordings: each is refused with its place and a remedy.

use std::path::Path;

use profiler::import::{Format, ImportOptions, InPlaceOps, import_trace};
use schema::Document;

const LOG: &str = r#"{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","NAME":"w","MEMORY":"10"}
{"INSTRUCTION":"CALL","NAME":"mm","ARGS":["w"],"RESULT":["a","b"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":"100"}
{"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"-1"}
{"INSTRUCTION":"MEMORY","NAME":"b","MEMORY":"0"}
{"INSTRUCTION":"ALIAS","NAME":"b","ALIAS":"0"}
{"INSTRUCTION":"COPY","DST":"c","SRC":"a"}
{"INSTRUCTION":"MUTATE","NAME":"add_","ARGS":["a","w"],"MUTATE":[0],"TIME":"6"}
{"INSTRUCTION":"COPY_FROM","DST":"c","SRC":"a"}
{"INSTRUCTION":"RELEASE","NAME":"a"}
"#;

const GRAPH: &str = r#"{
  "format": "opgraph/1", "network": "n", "batch": 2, "device": "d", "framework": "f", "source": "s",
  "loss_op": 1, "total_ms": 0.003,
  "ops": [
    {"id": 0, "name": "mm", "phase": "forward", "time_ms": 0.001, "recompute_ms": 0.001, "output_bytes": 10, "workspace_bytes": 0, "inputs": [], "forward_op": null, "fixed_bytes": 5},
    {"id": 1, "name": "loss", "phase": "loss", "time_ms": 0.002, "recompute_ms": 0.002, "output_bytes": 4, "workspace_bytes": 0, "inputs": [0], "forward_op": null, "fixed_bytes": 5},
    {"id": 2, "name": "mm_ip_grad", "phase": "backward", "time_ms": 0.002, "recompute_ms": 0.002, "output_bytes": 4, "workspace_bytes": 0, "inputs": [1], "forward_op": 0, "fixed_bytes": 5}
  ]
}
"#;

/// `text` with the one place that says `from` saying `to`.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing says {from}");
    text.replacen(from, to, 1)
}

fn refusals(format: Option<Format>, file: &str, cases: &[(&str, String)]) -> String {
    let mut table = String::new();
    for (what, text) in cases {
        let error = import_trace(text, Path::new(file), format, &ImportOptions::default())
            .expect_err(&format!("{what} must be refused"));
        table.push_str(&format!("{what}\n    {error}\n"));
    }
    table
}

#[test]
fn whole_files_pass() {
    for (text, file) in [(LOG, "x.dtr.jsonl"), (GRAPH, "x.opgraph.json")] {
        let options = ImportOptions::default();
        import_trace(text, Path::new(file), None, &options).expect("the file is whole");
    }
}

#[test]
fn bad_logs() {
    let log = |from: &str, to: &str| changed(LOG, from, to);
    let cut = |lines: usize| LOG.split_inclusive('\n').take(lines).collect::<String>();
    let without = |line: usize| {
        let keep = |(index, text)| (index != line).then_some(text);
        LOG.split_inclusive('\n').enumerate().filter_map(keep).collect::<String>()
    };
    let cases = [
        ("empty", String::new()),
        ("only white space", "\n \n".into()),
        ("no ops", cut(3)),
        ("cut after CONSTANT", cut(2)),
        ("cut after CALL", cut(4)),
        ("cut within the results", cut(5)),
        ("cut within a line", LOG[..LOG.len() - 9].into()),
        ("MEMORY missing", without(2)),
        ("ALIAS missing", without(5)),
        ("MEMORY of another name", log(r#""MEMORY","NAME":"b""#, r#""MEMORY","NAME":"x""#)),
        ("MEMORY where none belongs", LOG.to_string() + LOG.lines().nth(2).unwrap_or_default()),
        ("undefined argument", log(r#"["w"]"#, r#"["v"]"#)),
        ("undefined source", log(r#""DST":"c","SRC":"a"}"#, r#""DST":"c","SRC":"q"}"#)),
        ("undefined destination", log(r#"COPY_FROM","DST":"c""#, r#"COPY_FROM","DST":"q""#)),
        ("result defined twice", log(r#"["a","b"]"#, r#"["a","a"]"#).replace(r#""b""#, r#""a""#)),
        ("name defined again", log(r#""COPY","DST":"c""#, r#""COPY","DST":"w""#)),
        ("ALIAS out of range", log(r#""ALIAS":"0""#, r#""ALIAS":"1""#)),
        ("ALIAS negative", log(r#""ALIAS":"0""#, r#""ALIAS":"-2""#)),
        ("MUTATE out of range", log("[0]", "[2]")),
        ("MUTATE twice", log("[0]", "[0,0]")),
        ("MUTATE negative", log("[0]", "[-1]")),
        ("time negative", log(r#""TIME":"5""#, r#""TIME":"-5""#)),
        ("time as a fraction", log(r#""TIME":"5""#, r#""TIME":5.5"#)),
        ("bytes huge", log(r#""MEMORY":"100""#, r#""MEMORY":"99999999999999999999""#)),
        ("bytes too large in sum", log(r#""MEMORY":"100""#, r#""MEMORY":"1152921504606846976""#)),
        ("times too large in sum", log(r#""TIME":"5""#, r#""TIME":"1152921504606846976""#)),
        ("bytes not a number", log(r#""MEMORY":"100""#, r#""MEMORY":[1]"#)),
        ("wrong type", log(r#"["w"]"#, r#""w""#)),
        ("field missing", log(r#","TIME":"5""#, "")),
        ("unknown instruction", log("COPY_FROM", "MOVE")),
        ("depth bomb", LOG.to_string() + &"[".repeat(100_000)),
        ("long name", log(r#"["w"]"#, &format!("[\"{}\"]", "x".repeat(1_000_000)))),
    ];
    insta::assert_snapshot!(refusals(Some(Format::Dtr), "logs/x.dtr.jsonl", &cases));
}

#[test]
fn bad_graphs() {
    let graph = |from: &str, to: &str| changed(GRAPH, from, to);
    let cases = [
        ("empty", String::new()),
        ("cut", GRAPH[..GRAPH.len() - 9].into()),
        ("not an object", "[]".into()),
        ("depth bomb", "[".repeat(100_000)),
        ("newer format", graph("opgraph/1", "opgraph/2")),
        ("no network", graph(r#""network": "n", "#, "")),
        ("batch negative", graph(r#""batch": 2"#, r#""batch": -2"#)),
        ("no ops", r#"{"format": "opgraph/1", "network": "n", "ops": []}"#.into()),
        ("ops not a list", r#"{"format": "opgraph/1", "network": "n", "ops": {}}"#.into()),
        ("op not an object", r#"{"format": "opgraph/1", "network": "n", "ops": [1]}"#.into()),
        ("id missing", graph(r#""id": 1, "#, "")),
        ("id twice", graph(r#""id": 1"#, r#""id": 0"#)),
        ("input not yet run", graph(r#""inputs": []"#, r#""inputs": [1]"#)),
        ("input itself", graph(r#""inputs": []"#, r#""inputs": [0]"#)),
        ("input unknown", graph(r#""inputs": [0]"#, r#""inputs": [7]"#)),
        ("input not an id", graph(r#""inputs": [0]"#, r#""inputs": [-1]"#)),
        ("forward op unknown", graph(r#""forward_op": 0"#, r#""forward_op": 9"#)),
        ("forward op later", graph(r#""forward_op": null"#, r#""forward_op": 2"#)),
        ("phase unknown", graph(r#""backward""#, r#""sideways""#)),
        ("time negative", graph("0.001", "-0.001")),
        ("time NaN", graph("0.001", "NaN")),
        ("time infinite", graph("0.001", "1e999")),
        ("time huge", graph("0.001", "1e300")),
        ("time a text", graph("0.001", "\"0.001\"")),
        ("bytes negative", graph(r#""output_bytes": 10"#, r#""output_bytes": -10"#)),
        ("bytes a fraction", graph(r#""output_bytes": 10"#, r#""output_bytes": 10.5"#)),
        ("bytes huge", graph(r#""output_bytes": 10"#, r#""output_bytes": 1e30"#)),
        (
            "bytes too large in sum",
            graph(r#""output_bytes": 4"#, r#""output_bytes": 1152921504606846976"#),
        ),
        (
            "workspace too negative",
            graph(r#""workspace_bytes": 0"#, r#""workspace_bytes": -9223372036854775808"#),
        ),
        ("fixed bytes missing", graph(r#", "fixed_bytes": 5"#, "")),
        ("recompute time missing", graph(r#""recompute_ms": 0.001, "#, "")),
    ];
    insta::assert_snapshot!(refusals(Some(Format::Opgraph), "x.opgraph.json", &cases));
}

#[test]
fn what_is_no_recording_is_refused() {
    let cases = [("empty", String::new()), ("prose", "Dear importer".into())];
    insta::assert_snapshot!(refusals(None, "notes.txt", &cases));
}

#[test]
fn formats_are_named_and_detected() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let unknown = "onnx".parse::<Format>().expect_err("unknown");
    insta::assert_snapshot!(unknown, @"`onnx` is not a kind of recording: write dtr, opgraph, kineto, execution-trace, memory-snapshot or op-times");
    assert_eq!(profiler::import::detect(LOG), Some(Format::Dtr));
    assert_eq!(profiler::import::detect(&GRAPH[..60]), Some(Format::Opgraph));
    assert_eq!(profiler::import::detect(""), None);
}

/// Imports a text both ways, as both kinds: what is accepted is well formed, and what is not says
/// where.
fn reads(text: &str) {
    for format in [None, Some(Format::Dtr), Some(Format::Opgraph)] {
        for in_place in [InPlaceOps::AsRecorded, InPlaceOps::Alias] {
            let options = ImportOptions { in_place, ..ImportOptions::default() };
            match import_trace(text, Path::new("some.dtr.jsonl"), format, &options) {
                Ok(trace) => trace.check().expect("imported traces are well formed"),
                Err(error) => {
                    assert!(error.to_string().starts_with("some.dtr.jsonl:"), "{error}");
                    assert!(error.to_string().len() < 2000, "{error}");
                }
            }
        }
    }
}

/// Every prefix of a whole small recording.
#[test]
fn every_truncation() {
    for text in [LOG, GRAPH] {
        for end in 0..=text.len() {
            reads(&text[..end]);
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
    reads(&log);
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
    let options = ImportOptions { in_place: InPlaceOps::Alias, ..ImportOptions::default() };
    let trace =
        import_trace(&log, Path::new("long.dtr.jsonl"), None, &options).expect("a whole log");
    assert_eq!(trace.ops[1].in_place.len(), many);
}
