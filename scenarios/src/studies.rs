//! Studies: a file names networks, batches, machines, links, budgets and methods, and each
//! combination is a point to be planned.
//!
//! [`study`] gives a bundled study by name, [`study_from_toml`] reads one that a user wrote. Names
//! of what is bundled are checked here; files that a study names are read by whoever runs it.

mod check;
mod error;
mod file;
mod lookups;
mod paper;
mod points;
mod values;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::ScenarioError;

pub use error::{StudyError, StudyProblem};
pub use lookups::{
    Graph, GraphTraining, LookupFigure, LookupQuantity, LookupStudy, OtherCodec, PackedTable,
    Served,
};
pub use paper::{Figure, Of, Paper, Quantity, Value};
pub use points::{
    Allow, Find, Group, GroupCodecs, LinkChoice, Place, Point, Study, Subject, WhatIf,
};

/// Embeds `studies/<name>.toml` for each name.
macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../studies/", $name, ".toml")))),*]
    };
}

const BUNDLED: &[(&str, &str)] = embed!(
    "batches",
    "comet",
    "cswap",
    "host-memory",
    "ibp",
    "links",
    "pooch",
    "smallest-gpu",
    "state"
);

/// The names of the studies that come with tidegate, ascending.
pub fn studies() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(name, _)| *name)
}

/// The bundled study of a name. `methods` are the names of all methods, to check the study's
/// against.
///
/// # Errors
/// Where there is no such study, or it names what is not there.
pub fn study(name: &str, methods: &[&str]) -> Result<Study, StudyError> {
    let Some((_, text)) = BUNDLED.iter().find(|(known, _)| *known == name) else {
        return Err(ScenarioError::unknown("study", name, studies()).into());
    };
    study_from_toml(text, &PathBuf::from(format!("studies/{name}.toml")), methods)
}

/// Reads a study from the text of a TOML file. `file` is what errors call it, and its stem is the
/// study's name; `methods` are the names of all methods.
///
/// # Errors
/// Where the text is no study, or names what is not there; the error says where and what to
/// write instead.
pub fn study_from_toml(text: &str, file: &Path, methods: &[&str]) -> Result<Study, StudyError> {
    let written = file::StudyFile::read(text, file)?;
    check::Checker { text, file, methods }.study(written)
}
