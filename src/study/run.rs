//! Plans the points of a study that have no result yet.

use std::path::PathBuf;
use std::str::FromStr;

use rayon::prelude::*;
use results::Row;
use scenarios::Study;

use super::case::{Case, cases};
use super::store::Store;
use super::{conclusions, gains, paper, table};
use crate::exit::{Exit, OrExit, Result, WithExit};
use crate::output::print;
use crate::progress;
use crate::signals::interrupted;

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

/// Plans what is missing, and shows the results once all points have one.
pub fn run(study: &Study, options: &Options) -> Result {
    let store = Store::open(&options.folder, &options.also)?;
    let cases = cases(study)?;
    let mut rows = Vec::with_capacity(cases.len());
    for case in &cases {
        rows.push(store.row(&case.digest, &case.row)?);
    }
    let missing: Vec<(usize, &Case)> = (cases.iter().enumerate())
        .filter(|(index, _)| rows[*index].is_none() && options.partition.has(*index))
        .collect();
    for (index, row) in plan(&missing, &store, options.jobs)? {
        rows[index] = Some(row);
    }
    let found: Vec<Row> = rows.into_iter().flatten().collect();
    if found.len() < cases.len() {
        return print(format!(
            "{}: {} of {} points have results in {}; the others are of other partitions: read \
             them together with --also\n",
            study.name,
            found.len(),
            cases.len(),
            options.folder.display()
        ));
    }
    store.finish(&found)?;
    print(format!("{}: {}\n\n", study.name, study.description))?;
    print(table::table(&found))?;
    print(conclusions::conclusions(&found))?;
    if let Some(paper) = &study.paper {
        print(gains::gains(paper, &found))?;
        print(paper::side_by_side(paper, &found))?;
    }
    let folder = options.folder.display();
    print(format!(
        "\n{folder}/results.parquet and .csv hold all figures of {} points\n",
        found.len()
    ))
}

/// Plans points side by side, each kept as soon as it is done.
fn plan(
    missing: &[(usize, &Case)],
    store: &Store,
    jobs: Option<usize>,
) -> Result<Vec<(usize, Row)>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0)).build();
    let pool = pool.or_exit(Exit::Failed)?;
    let bar = progress::points(missing.len());
    let planned = pool.install(|| {
        let planned = missing.par_iter().with_max_len(1).map(|(index, case)| {
            if interrupted() {
                let error = anyhow::anyhow!("interrupted; what is done is kept");
                return Err(WithExit { exit: Exit::Interrupted, error });
            }
            let row = case.answer(&progress::UntilInterrupted)?;
            store.keep(&case.digest, row.clone())?;
            bar.inc(1);
            Ok((*index, row))
        });
        planned.collect()
    });
    bar.finish_and_clear();
    planned
}
