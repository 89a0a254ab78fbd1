//! Several budgets, as people write them.

use std::str::FromStr;

use planner::bound;
use scenarios::Budget;
use schema::Bytes;

use crate::{Error, Inputs, Result};

/// Points beyond this many are none that anybody looks at.
const MOST: f64 = 1000.0;

/// A list or a range.
#[derive(Debug, Clone, PartialEq)]
pub enum Budgets {
    /// Each by itself.
    List(Vec<Budget>),
    /// Shares of the in-core peak in percent, the first and the last.
    Range(f64, f64),
}

impl FromStr for Budgets {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            let budgets = text.split(',').map(str::parse);
            return Ok(Self::List(budgets.collect::<std::result::Result<_, _>>()?));
        };
        match (first.parse()?, last.parse()?) {
            (Budget::Percent(first), Budget::Percent(last)) => Ok(Self::Range(first, last)),
            _ => Err("a range is one of shares, such as 100%..30%; list amounts one by one".into()),
        }
    }
}

/// The budgets from the largest to the smallest, each once; those of a range lie `step` percent apart.
///
/// # Errors
/// If there are too many.
pub fn budgets(budgets: Option<&Budgets>, step: f64, inputs: &Inputs) -> Result<Vec<Bytes>> {
    let resolve = |budget| Budget::resolve(Some(budget), &inputs.machine, inputs.in_core.peak);
    let mut all: Vec<Bytes> = match budgets {
        Some(Budgets::List(budgets)) => budgets.iter().copied().map(resolve).collect(),
        Some(Budgets::Range(first, last)) => {
            let shares = shares(*first, *last, step)?;
            shares.map(|share| resolve(Budget::Percent(share))).collect()
        }
        None => {
            // Not down to zero, which is no budget.
            let shares = shares(100.0, step.min(100.0), step)?;
            let budgets = shares.map(|share| resolve(Budget::Percent(share)));
            let fits = |budget: &Bytes| bound(&inputs.problem_within(*budget)).time().is_some();
            budgets.take_while(fits).collect()
        }
    };
    all.sort_by_key(|budget| std::cmp::Reverse(*budget));
    all.dedup();
    Ok(all)
}

/// The shares of a range from the largest down, in percent.
fn shares(first: f64, last: f64, step: f64) -> Result<impl Iterator<Item = f64>> {
    let (most, least) = (first.max(last), first.min(last));
    // A little more, so that rounding does not lose the last.
    let steps = ((most - least) / step + 1e-6).floor();
    if !(0.0..MOST).contains(&steps) {
        return Err(Error::ManyBudgets(step, MOST));
    }
    Ok((0..=steps as u64).map(move |index| most - index as f64 * step))
}
