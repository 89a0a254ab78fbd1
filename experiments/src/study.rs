//! Runs studies: every point that has no result yet is planned and written at once.

mod case;
mod conclusions;
mod gains;
mod paper;
mod printed;
mod run;
mod store;
mod table;

use std::path::{Path, PathBuf};

use planner::methods;
use scenarios::Study;
use schema::file::read_text;

use crate::Result;

pub use printed::{Assumptions, Printed};
pub use run::{Options, Outcome, Partition, run};

/// A bundled study, or one from a file.
///
/// # Errors
/// If there is none of this name, or the file is none.
pub fn read(name: &str) -> Result<Study> {
    let all = methods::all();
    let methods: Vec<&str> = all.iter().map(|method| method.name()).collect();
    if Path::new(name).extension().is_none() {
        return Ok(scenarios::study(name, &methods)?);
    }
    let file = PathBuf::from(name);
    Ok(scenarios::study_from_toml(&read_text(&file)?, &file, &methods)?)
}
