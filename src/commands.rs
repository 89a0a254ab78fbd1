//! One file per subcommand.

use clap::Subcommand;

use crate::exit::Result;

/// A row for each subcommand: its module, whose `Args` and `run` it is, and its name.
macro_rules! commands {
    ($($module:ident $name:ident,)*) => {
        $(mod $module;)*

        #[derive(Subcommand)]
        pub enum Command {
            $($name($module::Args),)*
        }

        impl Command {
            pub fn run(self) -> Result {
                match self {
                    $(Self::$name(args) => $module::run(&args),)*
                }
            }
        }
    };
}

commands! {
    plan Plan,
    compare Compare,
    explain Explain,
    epochs Epochs,
    frontier Frontier,
    largest Largest,
    study Study,
    simulate Simulate,
    verify Verify,
    profile Profile,
    run Run,
    check Check,
    train Train,
    table Table,
    import Import,
    export Export,
    report Report,
    sample Sample,
    fit Fit,
    forecast Forecast,
    list List,
    schema Schema,
    bench Bench,
    acceptance Acceptance,
}
