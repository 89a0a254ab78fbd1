//! `tidegate epochs`

mod series;

use std::ops::Range;
use std::path::PathBuf;

use planner::methods::{Method, by_name};
use planner::{Monitor, Problem, ProvenPlan};
use schema::{Bytes, Document, EpochPlan, Nanos, PendingFile, Plan, PlanSeries, Task};

use crate::commands::compare::result_of;
use crate::commands::plan::method;
use crate::exit::{Exit, OrExit, Result, usage};
use crate::inputs::{BudgetArg, Inputs, ProblemArgs};
use crate::measured::zeros::{Zeros, apply};
use crate::networks::is_network;
use crate::output::{Format, columns, print, print_json};
use crate::progress::Bar;
use crate::published::published_figures;
use crate::rates::{every_rate, range_of, slid};
use series::{append, compressed};

/// Plan a training epoch by epoch, as the share of zeros changes: one plan per range of epochs
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    budget: BudgetArg,

    /// The epochs to plan, the last one excluded; the training ends there
    #[arg(long, value_name = "FIRST..END", value_parser = epochs, default_value = "0..90")]
    epochs: Range<u32>,

    /// Shares of zeros by tensor and epoch that `profile --epochs` counted on this trace, spread
    /// evenly over the training [default: the model of the named network]
    #[arg(long, value_name = "FILE")]
    zeros: Option<PathBuf>,

    /// The method (see `list methods`). With cswap+ the lossy codec's parameter slides over the
    /// epochs
    #[arg(long, value_name = "METHOD", default_value = "cswap+")]
    method: String,

    /// Where to write the plans, in one file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn epochs(text: &str) -> std::result::Result<Range<u32>, String> {
    let parsed = text
        .split_once("..")
        .and_then(|(first, end)| Some(first.parse::<u32>().ok()?..end.parse::<u32>().ok()?));
    match parsed {
        Some(range) if range.is_empty() => Err("holds no epoch: the end is excluded".into()),
        Some(range) if range.end > MOST_EPOCHS => Err(format!("ends beyond {MOST_EPOCHS}")),
        Some(range) => Ok(range),
        None => Err("write epochs as 0..90".into()),
    }
}

/// Nobody plans more epochs than this one by one.
const MOST_EPOCHS: u32 = 10_000;

/// What the plan of a range of epochs is compared with.
const BASE: &str = "vdnn-conv";

/// The plan of a range of epochs, in figures. Times are those of its first epoch.
#[derive(serde::Serialize)]
struct Row {
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

/// Plans, proves, writes and shows.
pub fn run(args: &Args) -> Result {
    let method = method(&args.method)?;
    if args.zeros.is_none() && !is_network(&args.problem.trace) {
        let message = "is no network, and what happens to its values over epochs is not known";
        let remedy = "name a network, or with --zeros what was counted";
        return Err(usage(format!("`{}` {message}: {remedy}", args.problem.trace)));
    }
    let zeros = args.zeros.as_deref().map(Zeros::read).transpose()?;
    if args.problem.network.progress.is_some() {
        return Err(usage("--progress is what goes from 0 to 1 over the epochs: leave it away"));
    }
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let bar = Bar::new(method.name());
    let training = Training { args, zeros, method: method.as_ref(), monitor: &bar };
    let (series, rows, assumptions) = training.plan()?;
    drop(bar);
    let to_stdout = output.as_ref().is_some_and(PendingFile::is_stdout);
    if let Some(output) = output {
        output.finish(series.to_json().as_bytes())?;
    }
    if !to_stdout {
        match args.format {
            Format::Text => {
                let ProblemArgs { trace, machine, .. } = &args.problem;
                let published = published_figures("epochs", method.name(), trace, machine);
                print(format!("{assumptions}{}{published}", table(&rows)))?;
            }
            Format::Json => print_json(&rows)?,
        }
    }
    Ok(())
}

/// A training that is planned epoch by epoch.
struct Training<'a> {
    args: &'a Args,
    /// What was counted, where that is what shares of zeros rest on.
    zeros: Option<Zeros>,
    method: &'a dyn Method,
    monitor: &'a dyn Monitor,
}

impl Training<'_> {
    /// The plans, a row for each, and what they rest on.
    fn plan(&self) -> Result<(PlanSeries, Vec<Row>, String)> {
        let mut series = PlanSeries { plans: Vec::new() };
        let (mut rows, mut assumptions) = (Vec::<Row>::new(), None);
        let mut slide = None;
        for epoch in self.args.epochs.clone() {
            let problem_args = self.problem_args(epoch);
            let mut inputs = problem_args.read(self.args.budget.budget)?;
            if let Some(zeros) = &self.zeros {
                apply(zeros, (epoch, self.args.epochs.end), &mut inputs.trace)?;
            }
            let problem = self.problem(&inputs)?;
            assumptions.get_or_insert_with(|| inputs.assumptions());
            // Once for the whole training (section 6.6 of CSWAP+).
            let range = *slide.get_or_insert_with(|| range_of(self.method, &problem));
            let parameter = range.map(|range| range.at(epoch, self.args.epochs.end));
            let slid = parameter.and_then(|parameter| slid(self.method, parameter));
            let method = slid.as_deref().unwrap_or(self.method);
            let mut plan = self.plan_of(method, &problem, &inputs)?;
            plan.settings.extend(problem_args.settings());
            plan.settings.insert("epoch".into(), epoch.to_string());
            if let Some(file) = &self.args.zeros {
                plan.settings.insert("zeros".into(), file.display().to_string());
                plan.settings.insert("epochs".into(), self.args.epochs.end.to_string());
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

    /// The problem's arguments in an epoch: training has come so far.
    fn problem_args(&self, epoch: u32) -> ProblemArgs {
        let mut args = self.args.problem.clone();
        if self.zeros.is_some() {
            return args;
        }
        let last = self.args.epochs.end - 1;
        args.network.progress = Some(f64::from(epoch) / f64::from(last.max(1)));
        args
    }

    /// An epoch's problem, with every rate of the codecs of fixed rate.
    fn problem<'i>(&self, inputs: &'i Inputs) -> Result<Problem<'i>> {
        let problem = inputs.problem();
        match &inputs.codecs {
            Some(codecs) => Ok(codecs.apply_models(problem, &every_rate(&codecs.chosen)?)),
            None => Ok(problem),
        }
    }

    fn plan_of(&self, method: &dyn Method, problem: &Problem, inputs: &Inputs) -> Result<Plan> {
        let found = result_of(method, problem, self.monitor, &inputs.in_core)?;
        found.plan.or_exit(Exit::Infeasible).map(ProvenPlan::into_plan)
    }
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

fn table(rows: &[Row]) -> String {
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
