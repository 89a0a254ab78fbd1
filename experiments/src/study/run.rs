//! Plans the points of a study that have no result yet.

use std::path::{Path, PathBuf};

use planner::Monitor;
use scenarios::{LookupStudy, Study};
use schema::{FileError, PendingFile};
use serde::{Deserialize, Serialize};

use super::case::{Case, case_at, cases};
use super::lookups::{self, Line};
use super::partition::Partition;
use super::printed::{self, Printed};
use super::store::Store;
use super::{conclusions, paper, table};
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
#[derive(Default, Serialize, Deserialize)]
pub struct Outcome {
    /// All of it, for people.
    #[serde(skip)]
    pub text: String,
    /// The numbers of the study's paper beside those that are predicted; none where it has no paper,
    /// or not all points have a result yet.
    pub figures: Vec<Printed>,
    /// Whether it was ended before all its points had results.
    #[serde(skip)]
    pub interrupted: bool,
}

/// Beside a study's results: its [`Outcome`] for programs, from which reports are drawn.
pub const FIGURES: &str = "figures.json";

impl Outcome {
    /// Writes the paper's numbers into the folder, where there are any.
    fn keep(self, folder: &Path) -> Result<Self> {
        if !self.figures.is_empty() {
            std::fs::create_dir_all(folder).map_err(|source| FileError::Io {
                verb: "write",
                path: folder.into(),
                source,
            })?;
            let text = serde_json::to_string_pretty(&self).expect("numbers and texts");
            PendingFile::create(&folder.join(FIGURES))?.finish(text.as_bytes())?;
        }
        Ok(self)
    }
}

/// A study of lookups, which has no points.
fn of_lookups(study: &Study, lookups: &LookupStudy) -> Result<Outcome> {
    let show = |value: f64| format!("{}", (value * 100.0).round() / 100.0);
    let (mut figures, mut what_ifs) = (Vec::new(), Vec::new());
    for Line { figure, predicted, others } in lookups::lines(lookups)? {
        let place = (study.name.as_str(), figure.what.clone());
        let values = (figure.printed, predicted);
        let stated = figure.rests_on.clone();
        let (printed, others) = Printed::with_others(place, values, others, stated, show);
        figures.push(Printed { input: figure.input, ..printed });
        what_ifs.extend(others);
    }
    figures.append(&mut what_ifs);
    let (name, title, machine) = (&study.name, &lookups.title, &lookups.machine);
    let text = format!(
        "{name}: {}\n\n{title}, beside what is predicted for {machine}:\n\n{}{}",
        study.description,
        printed::table(&figures),
        lookups::others(lookups)
    );
    Ok(Outcome { text, figures, interrupted: false })
}

/// Plans what is missing, and says what all results come to once all points have one. Interrupted, it
/// shows the points that are done.
///
/// # Errors
/// If the folder cannot be written, or a point names what is not there.
pub fn run(study: &Study, options: &Options, monitor: &dyn Monitor) -> Result<Outcome> {
    if let Some(lookups) = &study.lookups {
        return of_lookups(study, lookups)?.keep(&options.folder);
    }
    let store = Store::open(&options.folder, &options.also)?;
    let cases = cases(study)?;
    let mut rows = Vec::with_capacity(cases.len());
    for case in &cases {
        rows.push(store.row(&case.digest, &case.row)?);
    }
    let missing: Vec<(usize, &Case)> = (cases.iter().enumerate())
        .filter(|(index, case)| {
            rows[*index].is_none() && options.partition.has(*index, &case.digest)
        })
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let planned = pool.install(|| {
        let name = |(index, _): &(usize, &Case)| format!("point {index}");
        side_by_side(&missing, monitor, name, |(_, case), monitor| match monitor {
            Some(monitor) => match plan(&store, case, monitor) {
                Err(error) if error.is_interruption() => Ok(None),
                planned => planned.map(Some),
            },
            None => Ok(None),
        })
    })?;
    let interrupted = planned.iter().any(Option::is_none);
    for ((index, _), row) in missing.into_iter().zip(planned) {
        rows[index] = row;
    }
    let found: Vec<Row> = rows.into_iter().flatten().collect();
    let folder = options.folder.display();
    let (name, count, of) = (&study.name, found.len(), cases.len());
    if interrupted {
        let table = table::table(&found);
        let text = format!("{table}\n{name}: {count} of {of} points have results in {folder}\n");
        return Ok(Outcome { text, interrupted, ..Outcome::default() });
    }
    if count < of {
        let text = format!(
            "{name}: {count} of {of} points have results in {folder}; others are of other partitions, whose \
             folders are read together with --also, or still to be planned: see --status\n"
        );
        return Ok(Outcome { text, ..Outcome::default() });
    }
    store.finish(&found)?;
    let mut text = format!("{name}: {}\n\n", study.description);
    text += &table::table(&found);
    text += &conclusions::conclusions(&found);
    let mut figures = Vec::new();
    if let Some(paper) = &study.paper {
        figures = paper::printed(study, paper, &found);
        let printed = printed::table(&figures);
        text += &format!("\n{}, beside what is predicted here:\n\n{printed}", paper.title);
    }
    text += &format!("\n{folder}/results.parquet and .csv hold all figures of {count} points\n");
    Outcome { text, figures, interrupted }.keep(&options.folder)
}

/// Plans one point, by its number from 0, and says that it has a result.
///
/// # Errors
/// If there is no such point, it names what is not there, its result cannot be kept, or planning is
/// interrupted.
pub fn run_point(
    study: &Study,
    folder: &Path,
    number: usize,
    monitor: &dyn Monitor,
) -> Result<String> {
    let Some(case) = case_at(study, number)? else {
        return Err(Error::NoPoint(number, study.name.clone(), study.points().count()));
    };
    let store = Store::open(folder, &[])?;
    let row = plan(&store, &case, monitor)?;
    let outcome = match (row.answer.iteration, row.answer.reason) {
        (Some(time), _) => time.to_string(),
        (None, reason) => format!("no plan: {}", reason.unwrap_or_default()),
    };
    let (name, method, folder) = (&study.name, row.answer.method, folder.display());
    Ok(format!("{name}, point {number}, {method}: {outcome}; its result is in {folder}\n"))
}

/// The number of the point that an engine has this process plan: that of the list's entry which HyperQueue was
/// given, as tasks are numbered anew where the list has only some of the points; or else the task's own. Workers of
/// HyperQueue may themselves be tasks of Slurm's, so that its number counts first.
///
/// # Errors
/// If it is none, or has no number from 0.
pub fn task() -> Result<usize> {
    let entry = std::env::var("HQ_ENTRY").ok();
    let entry = entry.and_then(|json| serde_json::from_str::<Entry>(&json).ok());
    if let Some(entry) = entry {
        return Ok(entry.point);
    }
    let set = |name| Some((name, std::env::var(name).ok()?));
    let (name, value) =
        ["HQ_TASK_ID", "SLURM_ARRAY_TASK_ID"].into_iter().find_map(set).ok_or(Error::NoTask)?;
    value.parse().map_err(|_| Error::NoTaskNumber(name, value))
}

/// An entry of the list that `study --list --format json` prints.
#[derive(Deserialize)]
struct Entry {
    point: usize,
}

/// The row of a point: planned, unless this or another process has it already.
fn plan(store: &Store, case: &Case, monitor: &dyn Monitor) -> Result<Row> {
    if let Some(row) = store.row(&case.digest, &case.row)? {
        return Ok(row);
    }
    let row = case.answer(monitor)?;
    // Each is kept as soon as it is done.
    store.keep(&case.digest, row.clone())?;
    Ok(row)
}
