//! Tables are what was put into them, and bad files are refused.

use std::path::Path;

use experiments::tables::{Row, Table, TableError, read_parquet, write_csv, write_parquet};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reports::{MethodResult, Status};
use schema::{Bytes, BytesPerSec, Nanos, PendingFile};

fn example() -> Row {
    Row {
        study: "links".into(),
        network: "resnet50".into(),
        batch: Some(256),
        machine: "titan-v".into(),
        link: "pcie5".into(),
        bandwidth: BytesPerSec(50_000_000_000),
        in_core: Nanos(1_000_000),
        answer: MethodResult {
            method: "pooch".into(),
            iteration: Some(Nanos(1_500_000)),
            slowdown: Some(1.5),
            ..MethodResult::default()
        },
        ..Row::default()
    }
}

prop_compose! {
    /// Texts with what CSV and Parquet might stumble over, and every figure there or not.
    fn any_row()(
        texts in vec("[a-z,\"\n é]{0,8}", 10),
        batch in option::of(any::<u32>()),
        counts in vec(option::of(any::<u64>()), 12),
        slowdown in option::of(0.0..1e9f64),
        infeasible in any::<bool>(),
    ) -> Row {
        Row {
            study: texts[0].clone(),
            group: texts[1].clone(),
            network: texts[2].clone(),
            options: texts[3].clone(),
            batch,
            budget: Bytes(counts[0].unwrap_or(0)),
            in_core: Nanos(counts[1].unwrap_or(0)),
            answer: MethodResult {
                reason: Some(texts[4].clone()).filter(|_| infeasible),
                status: if infeasible { Status::Infeasible } else { Status::Ok },
                iteration: counts[2].map(Nanos),
                peak: counts[3].map(Bytes),
                kept: counts[4],
                swapped: counts[5],
                recompute: counts[6].map(Nanos),
                stall: counts[7].map(Nanos),
                slowdown,
                ..MethodResult::default()
            },
            ..Row::default()
        }
    }
}

fn create(file: &Path) -> PendingFile {
    PendingFile::create(file).expect("the folder is there")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows_come_back_as_they_were_and_give_the_same_bytes(rows in vec(any_row(), 0..20)) {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (folder.path().join("a.parquet"), folder.path().join("b.parquet"));
        write_parquet(&rows, create(&first)).expect("it can be written");
        let back: Vec<Row> = read_parquet(&first).expect("it can be read");
        prop_assert_eq!(&back, &rows);
        write_parquet(&back, create(&second)).expect("it can be written");
        let bytes = |file: &Path| std::fs::read(file).expect("it is there");
        prop_assert_eq!(bytes(&first), bytes(&second));
    }
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("part.parquet");
    write_parquet(&[example()], create(&file)).expect("it can be written");
    let whole = std::fs::read(&file).expect("it is there");
    let step = (whole.len() / 40).max(1);
    for length in (0..whole.len()).step_by(step) {
        std::fs::write(&file, &whole[..length]).expect("it can be written");
        let error = read_parquet::<Row>(&file).expect_err("it is cut short");
        assert!(matches!(error, TableError::Unreadable { .. }), "{length} bytes: {error}");
        assert!(error.to_string().contains("part.parquet"), "{error}");
        assert!(error.to_string().contains("delete it"), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none").join("part.parquet");
    let error = read_parquet::<Row>(&file).expect_err("no such file");
    assert!(matches!(error, TableError::File(_)), "{error}");
    assert!(error.to_string().contains("part.parquet"), "{error}");
}

#[test]
fn a_csv_file_has_the_documented_header_and_a_line_a_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("results.csv");
    write_csv(&[example(), Row::default()], create(&file)).expect("it can be written");
    let text = std::fs::read_to_string(&file).expect("it is text");
    let mut lines = text.lines();
    let names: Vec<&str> = Row::COLUMNS.iter().map(|(name, _)| *name).collect();
    assert_eq!(lines.next(), Some(names.join(",").as_str()));
    let cells: Vec<&str> = lines.next().expect("a row").split(',').collect();
    let cell = |name| {
        let column = names.iter().position(|column| *column == name);
        cells[column.expect("a column")]
    };
    assert_eq!(cell("network"), "resnet50");
    assert_eq!(cell("batch"), "256");
    assert_eq!(cell("iteration_ns"), "1500000");
    assert_eq!(cell("peak_bytes"), "");
    assert_eq!(lines.count(), 1);
}

/// Tables were once written by polars, with dictionaries, and its CSV is the same as ours.
#[test]
fn tables_of_an_older_tidegate_are_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/as-polars-wrote-it.parquet");
    let rows: Vec<Row> = read_parquet(&file).expect("it is whole");
    let row = |batch: u32| Row {
        link: String::new(),
        batch: (batch != 3).then_some(batch),
        budget: Bytes(u64::MAX - 1),
        answer: MethodResult {
            method: "pooch, \"é\"".into(),
            status: if batch.is_multiple_of(2) { Status::Infeasible } else { Status::Ok },
            reason: batch.is_multiple_of(2).then(|| "too little memory".into()),
            iteration: (batch % 2 == 1).then_some(Nanos(1_500_000)),
            slowdown: Some(1.0 / f64::from(batch)),
            gap: Some(1e-7),
            plan_seconds: Some(1e20),
            ..MethodResult::default()
        },
        in_core: Nanos(0),
        ..example()
    };
    assert_eq!(rows, (1..6).map(row).collect::<Vec<_>>());
}
