//! Times that scatter: deciding with them in mind, and what a plan makes of them.

use clap::Args;
use experiments::{Inputs, Scatter};

use crate::exit::Result;
use experiments::percent::Percent;

/// How times scatter.
#[derive(Debug, Args)]
pub struct ScatterArgs {
    /// Plan for times that scatter by this much, such as `10%` (standard deviation over mean): once
    /// as stated and once as if copies and reruns were as slow as they are at --quantile, and take
    /// the plan that is faster at --quantile over 1,000 replays. Shown is its time as stated
    #[arg(long, value_name = "SPREAD")]
    robust: Option<Percent>,

    /// What --robust goes by: the time that this share of all replays does not exceed
    #[arg(long, value_name = "SHARE", default_value = "90%", requires = "robust")]
    quantile: Percent,

    /// Replay each plan 1,000 times with times that scatter by this much, such as `10%`: each
    /// action's on its own, the link's from replay to replay; shows the median, the time that 90 and
    /// 99 of 100 replays do not exceed, and the worst
    #[arg(long, value_name = "SPREAD")]
    jitter: Option<Percent>,
}

impl ScatterArgs {
    pub fn read(&self, inputs: &Inputs) -> Result<Scatter> {
        let share = |percent: Percent| percent.0 / 100.0;
        let robust = self.robust.map(|spread| [share(spread), share(self.quantile)]);
        Ok(Scatter::new(inputs, robust, self.jitter.map(share))?)
    }

    /// What a plan's settings say of these arguments.
    pub fn settings(&self) -> Option<(String, String)> {
        let robust = self.robust?;
        Some(("robust".into(), format!("{robust} at {}", self.quantile)))
    }
}
