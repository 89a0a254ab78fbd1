//! Small opgraphs, written by hand, and the traces that they make.

use std::path::Path;

use crate::common::{bytes_at, text_of};
use profiler::import::{ImportOptions, InPlaceOps, import_trace};
use proptest::prelude::*;
use schema::Trace;

/// An op: name (backward where it ends in `_ip_grad`), inputs, output, workspace and fixed bytes.
type Row<'a> = (&'a str, &'a [u64], u64, i64, u64);

fn graph(rows: &[Row<'_>]) -> String {
    let op = |(id, (name, inputs, output, workspace, fixed)): (usize, &Row<'_>)| {
        let phase = match *name {
            name if name.ends_with("_ip_grad") => "backward",
            "loss" => "loss",
            _ => "forward",
        };
        serde_json::json!({
            "id": id, "name": name, "phase": phase, "time_ms": 0.000003, "recompute_ms": 0.000003,
            "output_bytes": output, "workspace_bytes": workspace, "inputs": inputs,
            "forward_op": null, "fixed_bytes": fixed,
        })
    };
    serde_json::json!({
        "format": "opgraph/1", "network": "small", "batch": 2,
        "ops": rows.iter().enumerate().map(op).collect::<Vec<_>>(),
    })
    .to_string()
}

fn import_rows(rows: &[Row<'_>], in_place: InPlaceOps) -> Trace {
    let options = ImportOptions { in_place, ..ImportOptions::default() };
    let trace = import_trace(graph(rows), Path::new("small.opgraph.json"), None, &options);
    trace.expect("the graph is whole")
}

fn trace(rows: &[Row<'_>]) -> String {
    text_of(&import_rows(rows, InPlaceOps::AsRecorded))
}

#[test]
fn outputs_live_until_their_last_reader_and_empty_unread_ones_are_left_out() {
    insta::assert_snapshot!(trace(&[
        ("conv2d", &[], 100, 7, 50),
        ("relu", &[0, 0], 100, 0, 50),
        ("dropout", &[1], 0, 0, 50),
        ("loss", &[1, 2], 4, 0, 50),
        ("relu_ip_grad", &[3, 0], 100, 0, 50),
        ("conv2d_ip_grad", &[4], 0, 0, 50),
    ]));
}

#[test]
fn an_op_with_a_saving_lays_its_output_over_an_input() {
    insta::assert_snapshot!(trace(&[
        ("conv2d", &[], 100, 0, 0),
        ("conv2d", &[0], 100, 0, 0),
        // A view of an input that dies here.
        ("flatten", &[1], 100, -100, 0),
        ("loss", &[2], 30, 0, 0),
        // Two could donate; the one that fits exactly does.
        ("relu_ip_grad", &[0, 3], 100, -30, 0),
        // The backward of an addition: one output for both gradients, over the incoming one.
        ("add_ip_grad", &[4], 200, -100, 0),
        // A smaller saving than laying over makes.
        ("relu_ip_grad", &[5], 100, -60, 0),
    ]));
}

#[test]
fn of_two_inputs_that_fit_the_gradient_gives_its_memory() {
    insta::assert_snapshot!(trace(&[
        ("conv2d_ip_grad", &[], 100, 0, 0),
        ("conv2d", &[], 100, 0, 0),
        ("relu_ip_grad", &[0, 1], 100, -100, 0),
    ]));
}

#[test]
fn a_view_of_an_input_that_is_read_later_is_the_same_tensor() {
    insta::assert_snapshot!(trace(&[
        ("conv2d", &[], 100, 0, 0),
        ("flatten", &[0], 100, -100, 0),
        ("flatten", &[1], 100, -90, 0),
        ("linear", &[0], 10, 0, 0),
        ("linear", &[2], 10, 0, 0),
        // Nobody reads the storage after this op.
        ("flatten_ip_grad", &[1, 4], 100, -100, 0),
    ]));
}

#[test]
fn a_saving_without_an_explanation_is_told() {
    insta::assert_snapshot!(trace(&[
        ("conv2d", &[], 100, 0, 0),
        ("relu", &[0], 100, -100, 0),
        ("relu", &[0, 1], 100, -101, 0),
        ("relu_ip_grad", &[2], 0, -1, 0),
    ]));
}

#[test]
fn fixed_bytes_rise_and_fall() {
    insta::assert_snapshot!(trace(&[
        ("conv2d", &[], 1, 0, 50),
        ("conv2d", &[0], 1, 0, 58),
        ("loss", &[1], 1, 0, 53),
        ("conv2d_ip_grad", &[2], 1, 0, 60),
        ("conv2d_ip_grad", &[3], 1, 0, 45),
        ("conv2d_ip_grad", &[4], 1, 0, 46),
    ]));
}

#[test]
fn in_place_ops_take_over_their_first_input_where_asked() {
    let rows: &[Row<'_>] = &[
        ("conv2d", &[], 100, 0, 0),
        ("relu_", &[0], 100, 0, 0),
        ("conv2d", &[1], 100, 0, 0),
        ("add_", &[2, 1], 100, 5, 0),
        ("sum_", &[3], 8, 0, 0),
        ("zero_", &[], 8, 0, 0),
        ("loss", &[4, 5], 4, 0, 0),
        ("add__ip_grad", &[6, 2], 100, 0, 0),
        ("relu__ip_grad", &[0, 7], 100, -100, 0),
    ];
    insta::assert_snapshot!("in_place_as_recorded", trace(rows));
    insta::assert_snapshot!("in_place_alias", text_of(&import_rows(rows, InPlaceOps::Alias)));
}

#[test]
fn an_in_place_op_spares_what_a_view_still_needs() {
    let rows: &[Row<'_>] = &[
        ("conv2d", &[], 100, 0, 0),
        ("flatten", &[0], 100, -100, 0),
        ("relu_", &[0], 100, -100, 0),
        ("linear", &[1, 2], 10, 0, 0),
    ];
    insta::assert_snapshot!(text_of(&import_rows(rows, InPlaceOps::Alias)));
}

prop_compose! {
    /// Graphs of any shape, with savings that may or may not have an explanation.
    fn any_rows()(ops in prop::collection::vec(
        (0usize..7, prop::collection::vec(any::<prop::sample::Index>(), 0..4),
         prop::sample::select(vec![0u64, 8, 10, 20]), -24i64..8, 0u64..30),
        1..25,
    )) -> Vec<(&'static str, Vec<u64>, u64, i64, u64)> {
        let names =
            ["conv2d", "relu_", "add_", "flatten", "relu_ip_grad", "flatten_ip_grad", "loss"];
        let row = |(id, (name, inputs, output, workspace, fixed)): (usize, &(
            usize, Vec<prop::sample::Index>, u64, i64, u64,
        ))| {
            let inputs = inputs.iter().filter(|_| id > 0).map(|i| i.index(id.max(1)) as u64);
            (names[*name], inputs.collect(), *output, *workspace, *fixed)
        };
        ops.iter().enumerate().map(row).collect()
    }
}

proptest! {
    /// Every consistent graph is a well-formed trace. Memory at every op is what the fields add up
    /// to, unless a note names the op; views make it less, because two outputs are one tensor.
    #[test]
    fn every_graph_makes_a_trace(rows in any_rows(), alias in any::<bool>()) {
        let rows: Vec<Row<'_>> =
            rows.iter().map(|(n, i, o, w, f)| (*n, i.as_slice(), *o, *w, *f)).collect();
        let in_place = if alias { InPlaceOps::Alias } else { InPlaceOps::AsRecorded };
        let trace = import_rows(&rows, in_place);
        prop_assert_eq!(trace.ops.len(), rows.len());
        prop_assert_eq!(trace.constant_bytes().0, rows[0].4);
        if alias {
            return Ok(());
        }
        let mut last: Vec<usize> = (0..rows.len()).collect();
        for (index, row) in rows.iter().enumerate() {
            row.1.iter().for_each(|input| last[*input as usize] = index);
        }
        let outputs = (0..rows.len()).filter(|i| rows[*i].2 > 0 || last[*i] > *i).count();
        let own = trace.tensors.iter().filter(|t| !t.name.starts_with("fixed memory")).count();
        for (index, row) in rows.iter().enumerate() {
            let title = format!("op {index} ");
            if trace.provenance.notes.iter().any(|note| note.starts_with(&title)) {
                continue;
            }
            let live: u64 = (0..=index).filter(|i| last[*i] >= index).map(|i| rows[i].2).sum();
            let stated = live as i64 + row.3 + row.4 as i64;
            let found = bytes_at(&trace, index) as i64;
            if own == outputs {
                prop_assert_eq!(found, stated, "op {}", index);
            } else {
                prop_assert!(found <= stated, "op {}: {} B, stated {} B", index, found, stated);
            }
        }
    }
}
