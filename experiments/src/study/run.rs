//! Plans the points of a study that have no result yet.

use std::path::PathBuf;
use std::str::FromStr;

use planner::Monitor;
use scenarios::Study;
use serde::Serialize;

use super::case::{Case, cases};
use super::printed::{self, Printed};
use super::store::Store;
use super::{conclusions, gains, paper, table};
use crate::side_by_side::side_by_side;
use crate::tables::Row;
use crate::{Error, Result};

/// How a study is run.
pub struct Options {
    /// Where its results are kept.
    pub folder: PathBuf,
    /// Folders with results of other partitions.
    pub also: Vec<PathBuf>,
    /// The part of the points that this run plans.
    pub partition: Partition,
    /// Points at a time; as many as there are cores where it is not stated.
    pub jobs: Option<usize>,
}

/// What a study comes to.
#[derive(Default, Serialize)]
pub struct Outcome {
    /// All of it, for people.
    #[serde(skip)]
    pub text: String,
    /// The numbers of the study's paper beside those that are predicted; none where it has no paper,
    /// or not all points have a result yet.
    pub figures: Vec<Printed>,
}

/// Part `part` of `of`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    part: usize,
    of: usize,
}

impl Partition {
    /// All points.
    pub const WHOLE: Self = Self { part: 1, of: 1 };

    fn has(self, index: usize) -> bool {
        index % self.of == self.part - 1
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let numbers = text.split_once('/').map(|(part, of)| (part.parse(), of.parse()));
        match numbers {
            Some((Ok(part), Ok(of))) if 1 <= part && part <= of => Ok(Self { part, of }),
            _ => Err("write part/parts, such as 1/4 for the first of four".into()),
        }
    }
}

/// Plans what is missing, and says what all results come to once all points have one.
///
/// # Errors
/// If the folder is in use or no folder, a point names what is not there, or planning is interrupted.
pub fn run(study: &Study, options: &Options, monitor: &dyn Monitor) -> Result<Outcome> {
    let store = Store::open(&options.folder, &options.also)?;
    let cases = cases(study)?;
    let mut rows = Vec::with_capacity(cases.len());
    for case in &cases {
        rows.push(store.row(&case.digest, &case.row)?);
    }
    let missing: Vec<(usize, &Case)> = (cases.iter().enumerate())
        .filter(|(index, _)| rows[*index].is_none() && options.partition.has(*index))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let planned = pool.install(|| {
        side_by_side(&missing, monitor, |(_, case), monitor| {
            let ended = Error::Interrupted("interrupted; what is done is kept");
            let row = case.answer(monitor.ok_or(ended)?)?;
            // Each is kept as soon as it is done.
            store.keep(&case.digest, row.clone())?;
            Ok(row)
        })
    })?;
    for ((index, _), row) in missing.into_iter().zip(planned) {
        rows[index] = Some(row);
    }
    let found: Vec<Row> = rows.into_iter().flatten().collect();
    let folder = options.folder.display();
    let (name, count) = (&study.name, found.len());
    if count < cases.len() {
        let text = format!(
            "{name}: {count} of {} points have results in {folder}; the others are of other partitions: \
             read them together with --also\n",
            cases.len()
        );
        return Ok(Outcome { text, ..Outcome::default() });
    }
    store.finish(&found)?;
    let mut text = format!("{name}: {}\n\n", study.description);
    text += &table::table(&found);
    text += &conclusions::conclusions(&found);
    let mut figures = Vec::new();
    if let Some(paper) = &study.paper {
        text += &gains::gains(paper, &found);
        figures = paper::printed(study, paper, &found);
        let printed = printed::table(&figures);
        text += &format!("\n{}, beside what is predicted here:\n\n{printed}", paper.title);
    }
    text += &format!("\n{folder}/results.parquet and .csv hold all figures of {count} points\n");
    Ok(Outcome { text, figures })
}
