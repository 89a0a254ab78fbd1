//! The recordings beside the project, against the tables that their README states.

use std::path::Path;

use crate::common::{bytes_at, in_core_peak, recordings};
use profiler::import::{Format, ImportOptions, InPlaceOps, detect, import_trace};
use schema::{Phase, Role, Trace};

fn read(folder: &Path, name: &str, in_place: InPlaceOps) -> Trace {
    let file = folder.join(name);
    let text = std::fs::read_to_string(&file).expect("the recording is readable");
    let options = ImportOptions { in_place, ..ImportOptions::default() };
    import_trace(&text, &file, None, &options).expect("the recording is whole")
}

/// A row `| name | batch | a | b | ... |` of the README's tables, without its name and batch.
fn table_row(readme: &str, name: &str, columns: usize) -> Vec<f64> {
    let cells = |line: &str| -> Option<Vec<f64>> {
        let mut cells = line.strip_prefix("| ")?.trim_end_matches('|').split('|').map(str::trim);
        (cells.next()? == name).then_some(())?;
        cells.map(|cell| cell.replace(',', "").parse().ok()).collect()
    };
    let row = readme.lines().filter_map(cells).find(|cells| cells.len() == columns);
    row.expect("the README has a row for each recording")[1..].to_vec()
}

#[test]
fn dtr_logs_replay_to_the_published_figures() {
    let Some(folder) = recordings() else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("a README");
    for name in ["resnet32", "unet", "transformer", "inceptionv4"] {
        let trace = read(&folder, &format!("{name}.dtr.jsonl"), InPlaceOps::AsRecorded);
        let [time, peak, constants] = table_row(&readme, name, 4)[..] else { panic!() };
        assert_eq!(trace.network, name);
        assert_eq!(trace.total_time().0 as f64, time, "{name}: time");
        assert_eq!(trace.constant_bytes().0 as f64, constants, "{name}: constants");
        let found = in_core_peak(&trace) as f64;
        assert!((found - peak).abs() <= 1024.0, "{name}: peak {found}, stated {peak}");
    }
}

#[test]
fn opgraphs_add_up_to_the_stated_figures() {
    let Some(folder) = recordings() else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("a README");
    for (name, network) in [("vgg16-p100", "vgg16"), ("resnet50-p100", "resnet50")] {
        let trace = read(&folder, &format!("{name}.opgraph.json"), InPlaceOps::AsRecorded);
        let [ops, total_ms, forward_gb] = table_row(&readme, name, 4)[..] else { panic!() };
        assert_eq!(trace.network, network);
        assert_eq!(trace.ops.len() as f64, ops);
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        assert_eq!(rounded(trace.total_time().as_millis_f64()), total_ms);
        let forward = trace.ops.iter().filter(|op| op.phase == Phase::Forward);
        let outputs: u64 =
            forward.flat_map(|op| &op.writes).map(|t| trace.tensors[t.index()].bytes.0).sum();
        assert_eq!(rounded(outputs as f64 / 1e9), forward_gb);
        assert!(trace.provenance.notes.iter().all(|note| !note.contains("over-estimated")));
    }
}

/// Memory at each op of an opgraph is what the file's fields add up to: inputs, output, workspace,
/// fixed bytes, and the outputs that later ops read.
#[test]
fn opgraph_memory_is_what_the_fields_add_up_to() {
    let Some(folder) = recordings() else { return };
    for name in ["vgg16-p100", "resnet50-p100"] {
        let name = format!("{name}.opgraph.json");
        let trace = read(&folder, &name, InPlaceOps::AsRecorded);
        let text = std::fs::read_to_string(folder.join(&name)).expect("readable");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let ops = json["ops"].as_array().expect("a list");
        let mut last: Vec<usize> = (0..ops.len()).collect();
        for (index, op) in ops.iter().enumerate() {
            for input in op["inputs"].as_array().expect("a list") {
                last[input.as_u64().expect("an id") as usize] = index;
            }
        }
        for (index, op) in ops.iter().enumerate() {
            let live = (0..=index).filter(|i| last[*i] >= index);
            let outputs: i64 = live.map(|i| ops[i]["output_bytes"].as_i64().expect("bytes")).sum();
            let expected = outputs
                + op["workspace_bytes"].as_i64().expect("bytes")
                + op["fixed_bytes"].as_i64().expect("bytes");
            assert_eq!(bytes_at(&trace, index) as i64, expected, "{name}, op {index}");
        }
    }
}

/// Everything that the traces say beside the tables, so that a change of the importer shows.
#[test]
fn summaries() {
    let Some(folder) = recordings() else { return };
    let mut text = String::new();
    for in_place in [InPlaceOps::AsRecorded, InPlaceOps::Alias] {
        for name in [
            "resnet32.dtr.jsonl",
            "unet.dtr.jsonl",
            "transformer.dtr.jsonl",
            "inceptionv4.dtr.jsonl",
            "vgg16-p100.opgraph.json",
            "resnet50-p100.opgraph.json",
        ] {
            let trace = read(&folder, name, in_place);
            let role = |role| trace.tensors.iter().filter(|t| t.role == role).count();
            let pairs: usize = trace.ops.iter().map(|op| op.in_place.len()).sum();
            text.push_str(&format!(
                "{name} {in_place:?}: {} ops, {} backward; {} constants, {} activations, {} \
                 gradients; {pairs} in place; peak {} B; recomputing differs by {} ns\n",
                trace.ops.len(),
                trace.ops.iter().filter(|op| op.phase == Phase::Backward).count(),
                role(Role::Parameter),
                role(Role::Activation),
                role(Role::Gradient),
                in_core_peak(&trace),
                trace
                    .ops
                    .iter()
                    .filter_map(|op| Some(op.recompute?.0 as i64 - op.duration.0 as i64))
                    .sum::<i64>(),
            ));
            for note in &trace.provenance.notes[1..] {
                text.push_str(&format!("    {note}\n"));
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// A damaged recording is refused, whatever line it is cut at, or is a whole shorter one.
#[test]
fn a_log_cut_short_never_makes_a_panic() {
    let Some(folder) = recordings() else { return };
    let file = folder.join("unet.dtr.jsonl");
    let text = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(detect(&text), Some(Format::Dtr));
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    for end in ends.iter().step_by(97) {
        let _ = import_trace(&text[..end - 7], &file, None, &ImportOptions::default())
            .expect_err("the last line is cut");
    }
}
