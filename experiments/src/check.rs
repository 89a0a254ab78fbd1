//! Networks that are measured, planned with several methods, and run: how well their times were
//! predicted.

mod agreement;
mod failures;
mod page;
mod table;

use planner::methods::Method;
use planner::{Monitor, PlanError, ProvenPlan, plan};
use profiler::machine::MeasuredMachine;
use profiler::profile::{Measuring, SOURCE, measure_ops};
use profiler::runs::Runs;
use profiler::within::keeps_everything;
use reports::Checked;
use runtime::network::Network;
use scenarios::Budget;
use schema::{Bytes, Nanos, Plan, Recipe, Timeline, Trace};

use crate::compared::{Compared, Pair};
use crate::page::PendingPage;
use crate::side_by_side::side_by_side;
use crate::{Conditions, Error, Result};
use failures::Failures;

pub use agreement::Agreement;
pub use table::{CheckResult, NetworkTable, NotRun, PlanRow};

/// What is checked where nobody names networks: different kinds, each small enough for a processor.
pub const STANDARD: [&str; 6] = [
    "plain20:batch=32:image=32",
    "squeezenet:batch=8:image=128",
    "mobilenet-v2:batch=8:image=96",
    "efficientnet-b0:batch=8:image=96",
    "vit-ti16:batch=4",
    "stories260k:batch=2",
];

/// What is checked, and what came of it so far.
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Check<'a> {
    pub how: &'a Measuring,
    pub machine: &'a MeasuredMachine,
    pub methods: &'a [Box<dyn Method>],
    /// Under which budgets each plans.
    pub budgets: &'a [Budget],
    /// What plans may do.
    pub conditions: Conditions,
    /// Iterations of each plan that count.
    pub iterations: usize,
    outcome: Outcome,
}

#[derive(Default)]
struct Outcome {
    done: Vec<Done>,
    tables: Vec<NetworkTable>,
    not_run: Vec<NotRun>,
    failures: Failures,
}

/// A network to check.
pub struct Subject<'a> {
    /// Its name with its options.
    pub name: String,
    /// The same, as what computes.
    pub network: &'a Network,
    /// The command that measured it, after `tidegate profile`.
    pub source: &'a str,
    /// How it is built.
    pub recipe: Recipe,
}

struct Done {
    row: Checked,
    plan: Plan,
    predicted: Timeline,
    measured: Timeline,
    trace: Trace,
}

/// A budget, a method, and what that came up with.
type Planned<'a> = (Bytes, &'a str, std::result::Result<ProvenPlan, PlanError>);

impl<'a> Check<'a> {
    /// Of nothing yet.
    pub fn new(
        how: &'a Measuring,
        machine: &'a MeasuredMachine,
        (methods, budgets): (&'a [Box<dyn Method>], &'a [Budget]),
        conditions: Conditions,
        iterations: usize,
    ) -> Self {
        Self { how, machine, methods, budgets, conditions, iterations, outcome: Outcome::default() }
    }

    /// Profiles, plans and runs a network. What came of it in text; what fails is said there, and ends
    /// nothing else.
    ///
    /// # Errors
    /// If it is interrupted.
    pub fn network(&mut self, subject: &Subject, monitor: &dyn Monitor) -> Result<String> {
        match self.table(subject, monitor) {
            Ok(table) => {
                let text = table.text();
                self.outcome.tables.push(table);
                Ok(text)
            }
            Err(error) => {
                let reason = self.outcome.failures.add(error, &self.how.target)?;
                let network = subject.name.clone();
                let text = format!("\n{network}: not run: {reason}\n");
                self.outcome.not_run.push(NotRun { network, reason });
                Ok(text)
            }
        }
    }

    fn table(&mut self, subject: &Subject, monitor: &dyn Monitor) -> Result<NetworkTable> {
        self.outcome.failures.unless_lost()?;
        let (machine, target) = (&self.machine.machine, &self.how.target);
        let source = format!("{SOURCE} {}", subject.source);
        let (mut trace, times) = measure_ops(subject.network, source, self.how, machine, monitor)?;
        trace.provenance.recipe = Some(subject.recipe.clone());
        let runs = Runs {
            warmup: 1,
            iterations: self.iterations,
            seed: self.how.seed,
            graph: self.how.graph,
            fingerprint: true,
        };
        let on = (subject.network, &trace, machine);
        let in_core = match keeps_everything(target, &trace, machine) {
            true => Some(target.run_in_core(on, runs, monitor)?),
            false => None,
        };
        let (peak, all_ops) = (simulator::in_core(&trace).peak, trace.total_time());
        let mut table = NetworkTable {
            network: subject.name.clone(),
            ops: trace.ops.len(),
            peak_bytes: peak,
            within_bytes: times.within,
            ops_ns: all_ops,
            in_core_ns: (in_core.as_ref())
                .map(|times| Pair { measured: times.measured, predicted: times.predicted }),
            computed_by: times.computed_by,
            plans: Vec::new(),
        };
        for (budget, method, planned) in self.plans(&trace, (peak, table.within_bytes), monitor)? {
            let share = 100.0 * budget.0 as f64 / peak.0.max(1) as f64;
            let mut row = PlanRow::new(share, method);
            let run = |plan: &Plan| {
                monitor.step(&format!("{}, {method} runs", subject.name));
                target.run(on, plan, runs, &[], monitor)
            };
            let Outcome { done, failures, .. } = &mut self.outcome;
            match (planned, failures.unless_lost()) {
                (Err(error), _) => row.failed(&no_plan(&error), None),
                (Ok(_), Err(lost)) => {
                    failures.add(lost, target)?;
                    row.failed("device lost", None);
                }
                (Ok(plan), Ok(())) => match run(&plan) {
                    Err(error) => {
                        row.failed("not run", Some(failures.add(error.into(), target)?));
                    }
                    Ok(execution) => {
                        let compared = Compared::of(&plan, &execution, in_core.as_ref());
                        row.executed(&compared, &plan);
                        let predicted = simulator::predict(&plan, Some(&trace));
                        let row = checked(&subject.name, &row, &compared, all_ops);
                        let (measured, trace) = (execution.middle().clone(), trace.clone());
                        let plan = plan.into_plan();
                        done.push(Done { row, plan, predicted, measured, trace });
                    }
                },
            }
            table.plans.push(row);
        }
        Ok(table)
    }

    /// A plan for each budget and method, made side by side; in the order of budgets and methods. Where ops were
    /// timed within a budget, that is the one.
    fn plans(
        &self,
        trace: &Trace,
        (peak, within): (Bytes, Option<Bytes>),
        monitor: &dyn Monitor,
    ) -> Result<Vec<Planned<'a>>> {
        let machine = &self.machine.machine;
        let resolve = |budget: &Budget| Budget::resolve(Some(*budget), machine, peak);
        let methods = self.methods;
        let budgets = match within {
            Some(budget) => vec![budget],
            None => self.budgets.iter().map(resolve).collect(),
        };
        let all: Vec<_> = budgets
            .into_iter()
            .flat_map(|bytes| methods.iter().map(move |m| (bytes, m.as_ref())))
            .collect();
        let name = |(bytes, method): &(Bytes, &dyn Method)| {
            format!("{}, {} within {bytes}", trace.network, method.name())
        };
        side_by_side(&all, monitor, name, |(bytes, method), monitor| {
            let monitor = monitor.ok_or(Error::Interrupted("interrupted"))?;
            let problem = self.conditions.problem(trace, machine, *bytes);
            match plan(*method, &problem, monitor) {
                Err(PlanError::Interrupted) => Err(Error::Interrupted("interrupted")),
                planned => Ok((*bytes, method.name(), planned)),
            }
        })
    }

    /// How well everything was predicted.
    pub fn agreement(&self) -> Agreement {
        let done = &self.outcome.done;
        let rows: Vec<&Checked> = done.iter().map(|done| &done.row).collect();
        let timelines: Vec<_> = done.iter().map(|done| [&done.predicted, &done.measured]).collect();
        Agreement::of(&rows, &timelines)
    }

    /// Writes a page and the documents of what it shows, and says what was written.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, page: PendingPage) -> Result<String> {
        page::write(page, &self.outcome.done, &self.machine.machine)
    }

    /// What came of all, and whether anything failed.
    pub fn finish(self) -> (CheckResult, Result<()>) {
        let agreement = self.agreement();
        let Outcome { tables, not_run, failures, .. } = self.outcome;
        let ended = failures.end().and_then(|()| table::same_bits(&tables));
        let device = self.machine.machine.description.clone();
        (CheckResult { device, networks: tables, not_run, agreement }, ended)
    }
}

fn no_plan(error: &PlanError) -> String {
    match error.short_by() {
        Some(short) => format!("lacks {short}"),
        None => "no plan".into(),
    }
}

/// A row of the figures. Where there is no iteration in core to compare with, the sum of the ops stands
/// in for it.
fn checked(network: &str, row: &PlanRow, compared: &Compared, all_ops: Nanos) -> Checked {
    let Pair { measured, predicted } = compared.iteration_ns;
    let over_ops = Pair { measured: measured.ratio(all_ops), predicted: predicted.ratio(all_ops) };
    let slowdown = compared.slowdown.unwrap_or(over_ops);
    Checked {
        network: network.into(),
        budget_percent: row.budget_percent,
        method: row.method.clone(),
        measured: compared.iteration_ns.measured,
        predicted: compared.iteration_ns.predicted,
        measured_slowdown: slowdown.measured,
        predicted_slowdown: slowdown.predicted,
        arena_as_predicted: compared.arena_bytes.measured == compared.arena_bytes.predicted,
    }
}
