//! One file per subcommand.

mod acceptance;
mod bench;
mod check;
pub mod compare;
mod completions;
mod epochs;
mod explain;
mod export;
pub mod fit;
mod forecast;
mod frontier;
mod import;
mod init;
mod largest;
mod list;
mod man;
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

#[derive(Subcommand)]
pub enum Command {
    Plan(plan::Args),
    Compare(compare::Args),
    Explain(explain::Args),
    Epochs(epochs::Args),
    Frontier(frontier::Args),
    Largest(largest::Args),
    Study(study::Args),
    Simulate(simulate::Args),
    Verify(verify::Args),
    Profile(profile::Args),
    Run(run::Args),
    Check(check::Args),
    Train(train::Args),
    Table(table::Args),
    Import(import::Args),
    Export(export::Args),
    Report(report::Args),
    Sample(sample::Args),
    Fit(fit::Args),
    Forecast(forecast::Args),
    List(list::Args),
    Init(init::Args),
    Completions(completions::Args),
    Man(man::Args),
    Schema(schema::Args),
    Bench(bench::Args),
    Acceptance(acceptance::Args),
}

impl Command {
    pub fn run(self) -> Result {
        match self {
            Self::Plan(args) => plan::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Explain(args) => explain::run(&args),
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
            Self::Forecast(args) => forecast::run(&args),
            Self::List(args) => list::run(&args),
            Self::Init(args) => init::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Schema(args) => schema::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Acceptance(args) => acceptance::run(&args),
        }
    }
}
