//! A training planned epoch by epoch, as the share of zeros changes: one plan per range of epochs.

mod series;

use std::ops::Range;
use std::str::FromStr;

use planner::methods::{Method, by_name};
use planner::{Monitor, Problem};
use reports::columns;
use schema::{Bytes, EpochPlan, Nanos, Plan, PlanSeries, Task};
use serde::Serialize;

use crate::compare::result_of;
use crate::rates::{every_rate, range_of};
use crate::zeros::{Zeros, apply};
use crate::{Error, Inputs, Result};
use series::{append, compressed};

/// What the plan of a range of epochs is compared with.
const BASE: &str = "vdnn-conv";

/// The plan of a range of epochs, in figures. Times are those of its first epoch.
#[derive(Serialize)]
pub struct Row {
    first_epoch: u32,
    last_epoch: u32,
    /// Tensors that are compressed, on their way or in place.
    compressed: u64,
    /// Of the lossy codec of cswap+, where one is used: bits for a block of four values.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<u32>,
    iteration_ns: Nanos,
    d2h_bytes: Bytes,
    /// Absent: vDNN has no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    vdnn_iteration_ns: Option<Nanos>,
}

/// Epochs of a training, written as `0..90`; the end is excluded.
#[derive(Debug, Clone)]
pub struct Epochs(pub Range<u32>);

/// Nobody plans more epochs than this one by one.
const MOST_EPOCHS: u32 = 10_000;

impl FromStr for Epochs {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let range =
            |(first, end): (&str, &str)| Some(first.parse().ok()?..end.parse::<u32>().ok()?);
        match text.split_once("..").and_then(range) {
            Some(range) if range.is_empty() => Err("holds no epoch: the end is excluded".into()),
            Some(range) if range.end > MOST_EPOCHS => Err(format!("ends beyond {MOST_EPOCHS}")),
            Some(range) => Ok(Self(range)),
            None => Err("write epochs as 0..90".into()),
        }
    }
}

/// A training to be planned.
pub struct Training<'a> {
    /// The epochs that are planned; the training ends with the last.
    pub epochs: Range<u32>,
    /// What was counted, where that is what shares of zeros rest on.
    pub zeros: Option<Zeros>,
    /// The method.
    pub method: &'a dyn Method,
    /// Whoever waits.
    pub monitor: &'a dyn Monitor,
}

/// What an epoch's plan is made from, and what its settings say of that.
pub type EpochInputs = (Inputs, Vec<(String, String)>);

impl Training<'_> {
    /// The plans, a row for each, and what they rest on. `inputs` are those of an epoch.
    ///
    /// # Errors
    /// If an epoch has no plan or no inputs.
    pub fn plan<E: From<Error>>(
        &self,
        inputs: impl Fn(u32) -> std::result::Result<EpochInputs, E>,
    ) -> std::result::Result<(PlanSeries, Vec<Row>, String), E> {
        let mut series = PlanSeries { plans: Vec::new() };
        let (mut rows, mut assumptions) = (Vec::<Row>::new(), None);
        let mut slide = None;
        let end = self.epochs.end;
        for epoch in self.epochs.clone() {
            self.monitor.step(&format!("epoch {epoch}"));
            let (mut inputs, settings) = inputs(epoch)?;
            if let Some(zeros) = &self.zeros {
                apply(zeros, (epoch, end), &mut inputs.trace)?;
            }
            assumptions.get_or_insert_with(|| inputs.assumptions());
            let inputs = with_every_rate(inputs)?;
            let problem = inputs.problem();
            // Once for the whole training (section 6.6 of CSWAP+).
            let range = *slide.get_or_insert_with(|| range_of(self.method, &problem));
            let parameter = range.map(|range| range.at(epoch, end));
            let slid = parameter.and_then(|parameter| self.method.with_parameter(parameter));
            let mut plan =
                self.plan_of(slid.as_deref().unwrap_or(self.method), &problem, &inputs)?;
            plan.settings.extend(settings);
            plan.settings.insert("epoch".into(), epoch.to_string());
            if let Some(zeros) = &self.zeros {
                plan.settings.insert("zeros".into(), zeros.file().display().to_string());
                plan.settings.insert("epochs".into(), end.to_string());
            }
            if append(&mut series.plans, epoch, plan) {
                let base = by_name(BASE).expect("a method of ours");
                let base = self.plan_of(base.as_ref(), &problem, &inputs).ok();
                let EpochPlan { plan, .. } = series.plans.last().expect("one was added");
                rows.push(row(epoch, plan, parameter, base.map(|base| base.predicted.iteration)));
            }
            rows.last_mut().expect("there is one from the first epoch on").last_epoch = epoch;
        }
        Ok((series, rows, assumptions.unwrap_or_default()))
    }

    fn plan_of(&self, method: &dyn Method, problem: &Problem, inputs: &Inputs) -> Result<Plan> {
        Ok(result_of(method, problem, self.monitor, &inputs.in_core)?.plan?.into_plan())
    }
}

/// The same with every rate of the codecs of fixed rate.
fn with_every_rate(mut inputs: Inputs) -> Result<Inputs> {
    if let Some(codecs) = &mut inputs.conditions.codecs {
        codecs.chosen = every_rate(&codecs.chosen)?;
    }
    Ok(inputs)
}

fn row(epoch: u32, plan: &Plan, parameter: Option<u32>, vdnn: Option<Nanos>) -> Row {
    let copies = plan.actions.iter().filter(|action| matches!(action.task, Task::D2h(_)));
    Row {
        first_epoch: epoch,
        last_epoch: epoch,
        compressed: compressed(plan),
        parameter,
        iteration_ns: plan.predicted.iteration,
        d2h_bytes: copies.map(|action| plan.moved_bytes(action)).sum(),
        vdnn_iteration_ns: vdnn,
    }
}

/// A line for each plan.
pub fn table(rows: &[Row]) -> String {
    let head = ["epochs", "compressed", "P", "iteration", "copied out", BASE, "time against it"];
    let line = |row: &Row| {
        let against = row.vdnn_iteration_ns.map(|vdnn| row.iteration_ns.ratio(vdnn) - 1.0);
        vec![
            format!("{} to {}", row.first_epoch, row.last_epoch),
            row.compressed.to_string(),
            row.parameter.map_or("-".into(), |p| p.to_string()),
            row.iteration_ns.to_string(),
            row.d2h_bytes.to_string(),
            row.vdnn_iteration_ns.map_or("no plan".into(), |time| time.to_string()),
            against.map_or("-".into(), |share| format!("{:+.1} %", 100.0 * share)),
        ]
    };
    let mut lines = vec![head.map(String::from).to_vec()];
    lines.extend(rows.iter().map(line));
    columns(&lines)
}
