//! Which points of a study have results.

use std::fmt;

use scenarios::Study;
use serde::Serialize;

use super::case::cases;
use super::run::Options;
use super::store::Store;
use crate::Result;

/// How far a study has come.
#[derive(Debug, Serialize)]
pub struct Status {
    study: String,
    points: usize,
    done: usize,
    /// The numbers of those without a result, from 0.
    missing: Vec<usize>,
}

/// Looks which points have results.
///
/// # Errors
/// If there is no such folder, a point names what is not there, or a result is another point's.
pub fn status(study: &Study, options: &Options) -> Result<Status> {
    let store = Store::look(&options.folder, &options.also)?;
    let mut missing = Vec::new();
    let cases = cases(study)?;
    for (number, case) in cases.iter().enumerate() {
        if store.row(&case.digest, &case.row)?.is_none() {
            missing.push(number);
        }
    }
    let (points, done) = (cases.len(), cases.len() - missing.len());
    Ok(Status { study: study.name.clone(), points, done, missing })
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} of {} points have results", self.study, self.done, self.points)?;
        if self.missing.is_empty() {
            return Ok(());
        }
        // As job arrays are written: 0,3-7.
        let runs = self.missing.chunk_by(|before, next| before + 1 == *next);
        let runs = runs.filter_map(|run| match (run.first()?, run.last()?) {
            (first, last) if first == last => Some(first.to_string()),
            (first, last) => Some(format!("{first}-{last}")),
        });
        writeln!(f, "missing: {}", runs.collect::<Vec<_>>().join(","))
    }
}
