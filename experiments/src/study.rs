//! Runs studies: every point that has no result yet is planned and written at once.

mod case;
mod conclusions;
mod list;
mod lookups;
mod paper;
mod partition;
mod printed;
mod profiled;
mod run;
mod status;
mod store;
mod table;

use std::path::PathBuf;

use planner::methods;
use scenarios::{LinkChoice, Study};
use schema::file::read_text;
use schema::{Framework, Shard};

use crate::sources::with_links;
use crate::{Error, Result};

pub use list::{Asked, list, list_text};
pub use partition::Partition;
pub use printed::{Assumptions, Printed, counted};
pub use run::{FIGURES, Options, Outcome, run, run_point, task};
pub use status::{Status, status};

/// What all points of a study are to have in place of their own.
#[derive(Debug, Default)]
pub struct Over {
    /// So many GPUs share each machine's link to its host.
    pub share_link: Option<u32>,
    /// The network between ranks.
    pub net_link: Option<String>,
    /// How many ranks train each network.
    pub ranks: Option<u32>,
    /// What each has only its share of.
    pub shard: Option<Shard>,
}

/// A bundled study, or one from a file.
///
/// # Errors
/// If there is none of this name, the file is none, or what is to be trained by ranks is no network.
pub fn read(name: &str, over: &Over) -> Result<Study> {
    let all = methods::all();
    let methods: Vec<&str> = all.iter().map(|method| method.name()).collect();
    let file = PathBuf::from(name);
    let mut study = match file.extension() {
        None => scenarios::study(name, &methods)?,
        Some(_) => scenarios::study_from_toml(&read_text(&file)?, &file, &methods)?,
    };
    let Over { share_link, net_link, ranks, shard } = over;
    let named = |name: &str| with_links(name, *share_link, net_link.as_deref());
    for group in &mut study.groups {
        if let Some(ranks) = *ranks {
            let recorded = group.subjects.iter().find(|subject| !subject.is_network);
            if let Some(subject) = recorded {
                return Err(Error::At(
                    subject.place.clone(),
                    Error::RanksOf(subject.name.clone()).into(),
                ));
            }
            if group.framework != Framework::Pytorch {
                let of = format!("group `{}`, which does not run PyTorch's ops", group.name);
                return Err(Error::RanksOf(of));
            }
            (group.options.ranks, group.options.shard) = (ranks, *shard);
        }
        for (machine, _) in &mut group.machines {
            *machine = named(machine);
        }
        for link in &mut group.links {
            match link {
                LinkChoice::Own => {}
                LinkChoice::Named(name) => *name = named(name),
                LinkChoice::Bandwidth(bandwidth) => {
                    bandwidth.0 = (bandwidth.0 / u64::from(share_link.unwrap_or(1))).max(1)
                }
            }
        }
    }
    Ok(study)
}
