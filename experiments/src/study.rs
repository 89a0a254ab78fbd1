//! Runs studies: every point that has no result yet is planned and written at once.

mod case;
mod conclusions;
mod gains;
mod list;
mod lookups;
mod paper;
mod partition;
mod printed;
mod run;
mod status;
mod store;
mod table;

use std::path::PathBuf;

use planner::methods;
use scenarios::{LinkChoice, Study};
use schema::file::read_text;

use crate::Result;
use crate::sources::shared;

pub use list::{Asked, list, list_text};
pub use partition::Partition;
pub use printed::{Assumptions, Printed};
pub use run::{FIGURES, Options, Outcome, run, run_point, task};
pub use status::{Status, status};

/// A bundled study, or one from a file; on machines whose link so many GPUs share.
///
/// # Errors
/// If there is none of this name, or the file is none.
pub fn read(name: &str, share_link: Option<u32>) -> Result<Study> {
    let all = methods::all();
    let methods: Vec<&str> = all.iter().map(|method| method.name()).collect();
    let file = PathBuf::from(name);
    let mut study = match file.extension() {
        None => scenarios::study(name, &methods)?,
        Some(_) => scenarios::study_from_toml(&read_text(&file)?, &file, &methods)?,
    };
    let Some(gpus) = share_link else { return Ok(study) };
    for group in &mut study.groups {
        for (machine, _) in &mut group.machines {
            *machine = shared(machine, share_link);
        }
        for link in &mut group.links {
            match link {
                LinkChoice::Own => {}
                LinkChoice::Named(name) => *name = shared(name, share_link),
                LinkChoice::Bandwidth(bandwidth) => {
                    bandwidth.0 = (bandwidth.0 / u64::from(gpus)).max(1)
                }
            }
        }
    }
    Ok(study)
}
