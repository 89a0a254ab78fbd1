//! One file per subcommand.

mod acceptance;
mod bench;
mod check;
pub mod compare;
mod devices;
mod epochs;
mod export;
pub mod fit;
mod frontier;
mod import;
mod largest;
mod list;
pub mod plan;
mod profile;
mod report;
pub mod run;
mod sample;
mod schema;
mod simulate;
mod study;
mod table;
mod train;
mod verify;

use clap::Subcommand;

use crate::exit::Result;

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Make a plan and show what it is predicted to cost
    Plan(plan::Args),
    /// Plan with several methods and compare them
    Compare(compare::Args),
    /// Plan a training epoch by epoch, as the share of zeros changes
    Epochs(epochs::Args),
    /// Plan under many budgets: time against memory, and the least memory for a slowdown
    Frontier(frontier::Args),
    /// Find the largest batch that a method can plan, or the smallest device
    Largest(largest::Args),
    /// Plan every point of a study; what is done stays done
    Study(study::Args),
    /// Simulate a plan and show where its time goes
    Simulate(simulate::Args),
    /// Prove that a plan is safe under every timing, or name what breaks it
    Verify(verify::Args),
    /// Measure a network and the machine that it runs on: op times, link, codecs
    Profile(profile::Args),
    /// Run a plan on a device, and show what was measured beside what was predicted
    Run(run::Args),
    /// Measure networks, plan them with several methods, run every plan, and show how well their
    /// times were predicted
    Check(check::Args),
    /// Train a small network under a memory budget with several codecs, and show what that does to
    /// loss and accuracy
    Train(train::Args),
    /// Predict lookups in a table too large for the device, with and without packing its rows
    Table(table::Args),
    /// Import a recording of another tool as a trace
    Import(import::Args),
    /// Show a timeline with another tool
    Export(export::Args),
    /// Draw figures, and one page that holds and explains them
    Report(report::Args),
    /// Take samples on this machine, from which `fit` makes models
    Sample(sample::Args),
    /// Fit models to samples: of codecs, or the efficiencies that modelled op times rest on
    Fit(fit::Args),
    /// List what comes with tidegate
    List(list::Args),
    /// Print the JSON Schema of a document
    Schema(schema::Args),
    /// Measure tidegate itself
    Bench(bench::Args),
    /// Try everything on a device, and write what came of it
    Acceptance(acceptance::Args),
}

impl Command {
    /// Runs the subcommand.
    pub fn run(self) -> Result {
        match self {
            Self::Plan(args) => plan::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Epochs(args) => epochs::run(&args),
            Self::Frontier(args) => frontier::run(&args),
            Self::Largest(args) => largest::run(&args),
            Self::Study(args) => study::run(&args),
            Self::Simulate(args) => simulate::run(&args),
            Self::Verify(args) => verify::run(&args),
            Self::Profile(args) => profile::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Check(args) => check::run(&args),
            Self::Train(args) => train::run(&args),
            Self::Table(args) => table::run(&args),
            Self::Import(args) => import::run(&args),
            Self::Export(args) => export::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Sample(args) => sample::run(&args),
            Self::Fit(args) => fit::run(&args),
            Self::List(args) => list::run(&args),
            Self::Schema(args) => schema::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Acceptance(args) => acceptance::run(&args),
        }
    }
}
