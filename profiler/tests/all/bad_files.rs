//! Damaged, contradictory and hostile recordings: each is refused with its place and a remedy.

use std::collections::BTreeMap;
use std::path::Path;

use profiler::import::{Format, ImportOptions, InPlaceOps, import_trace};
use schema::Document;
use strum::VariantArray;

const LOG: &str = include_str!("bad_files/whole.dtr.jsonl");
const GRAPH: &str = include_str!("bad_files/whole.opgraph.json");

/// `text` with the one place that says `from` saying `to`.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing says {from}");
    text.replacen(from, to, 1)
}

/// What is wrong by the list of a name, and the whole text so changed.
fn changes(list: &str, whole: &str) -> Vec<(String, String)> {
    let lists = include_str!("bad_files/changes.toml");
    let mut lists: BTreeMap<String, Vec<[String; 3]>> = toml::from_str(lists).expect("TOML");
    let list = lists.remove(list).expect("there is such a list").into_iter();
    list.map(|[what, from, to]| (what, changed(whole, &from, &to))).collect()
}

fn refusals(
    format: Option<Format>,
    file: &str,
    cases: impl IntoIterator<Item = (String, String)>,
) -> String {
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
        ("MEMORY where none belongs", LOG.to_string() + LOG.lines().nth(2).unwrap_or_default()),
        ("depth bomb", LOG.to_string() + &"[".repeat(100_000)),
        (
            "result defined twice",
            changed(LOG, r#"["a","b"]"#, r#"["a","a"]"#).replace(r#""b""#, r#""a""#),
        ),
        ("long name", changed(LOG, r#"["w"]"#, &format!("[\"{}\"]", "x".repeat(1_000_000)))),
    ];
    let cases = cases.map(|(what, text)| (what.to_string(), text));
    let cases = cases.into_iter().chain(changes("logs", LOG));
    insta::assert_snapshot!(refusals(Some(Format::Dtr), "logs/x.dtr.jsonl", cases));
}

#[test]
fn bad_graphs() {
    let cases = [
        ("empty", String::new()),
        ("cut", GRAPH[..GRAPH.len() - 9].into()),
        ("not an object", "[]".into()),
        ("depth bomb", "[".repeat(100_000)),
        ("no ops", r#"{"format": "opgraph/1", "network": "n", "ops": []}"#.into()),
        ("ops not a list", r#"{"format": "opgraph/1", "network": "n", "ops": {}}"#.into()),
        ("op not an object", r#"{"format": "opgraph/1", "network": "n", "ops": [1]}"#.into()),
    ];
    let cases = cases.map(|(what, text)| (what.to_string(), text));
    let cases = cases.into_iter().chain(changes("graphs", GRAPH));
    insta::assert_snapshot!(refusals(Some(Format::Opgraph), "x.opgraph.json", cases));
}

#[test]
fn what_is_no_recording_is_refused() {
    let cases = [("empty", ""), ("prose", "Dear importer")];
    let cases = cases.map(|(what, text)| (what.into(), text.into()));
    insta::assert_snapshot!(refusals(None, "notes.txt", cases));
}

#[test]
fn formats_are_named_and_detected() {
    for &format in Format::VARIANTS {
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
