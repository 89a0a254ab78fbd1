//! A machine for tests, to which figures matter little.

use std::path::Path;

use schema::{Document, Machine};

pub(crate) fn machine() -> Machine {
    let text = include_str!("../../scenarios/measured/h100-measured.json");
    Machine::from_json(text, Path::new("h100-measured.json")).expect("well formed")
}
