//! The machines of the papers against the table of what the papers print, where it is at hand.

use schema::{Bandwidth, Bytes};

use crate::machine;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/reference/README.md");

/// The numbers of a cell, in order: `11.7 / 10.6 GB/s` holds two.
fn numbers(cell: &str) -> Vec<f64> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    cell.split(|c| !is_number(c)).filter_map(|text| text.parse().ok()).collect()
}

/// Checks `16 GB` or `1 TB` against an amount, powers of two as the folder's README says.
fn check_memory(id: &str, cell: &str, memory: Bytes) {
    let unit: u64 = if cell.contains("TB") { 1 << 40 } else { 1 << 30 };
    if let [amount] = numbers(cell)[..] {
        assert_eq!(memory.0, amount as u64 * unit, "{id}: the paper prints {cell}");
    }
}

#[test]
fn the_papers_machines_have_the_figures_that_the_papers_print() {
    let Ok(text) = std::fs::read_to_string(TABLE) else {
        eprintln!("skipped: {TABLE} is not there");
        return;
    };
    let (_, section) = text.split_once("## Machines").expect("the table of machines");
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .skip(1)
        .collect();
    assert!(!rows.is_empty(), "the table has rows");
    for row in rows {
        let [id, _gpu, memory, _link, effective, host, _source] = row[..] else {
            panic!("a row of seven cells: {row:?}");
        };
        let machine = machine(id).unwrap_or_else(|error| panic!("{error}"));
        check_memory(id, memory, machine.device.memory);
        check_memory(id, host, machine.host.memory);
        let gb = |bandwidth: &Bandwidth| bandwidth.at(Bytes(1 << 30)) / 1e9;
        let link = [gb(&machine.link.d2h), gb(&machine.link.h2d)];
        match numbers(effective)[..] {
            [] => {}
            [both] => assert_eq!(link, [both, both], "{id}"),
            [d2h, h2d] => assert_eq!(link, [d2h, h2d], "{id}"),
            _ => panic!("{id}: {effective} is no pair of bandwidths"),
        }
    }
}
