//! Codecs as they are chosen on the command line.

use std::path::PathBuf;

use clap::Args;
use experiments::CodecInputs;
use experiments::sources::read_models;
use planner::CodecOptions;
use schema::Machine;

use crate::exit::{Result, usage};
use experiments::percent::share;

/// Which codecs a plan may use, and what it assumes of the data.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Options of codecs")]
pub struct CodecArgs {
    /// What a method may compress with: `none`, `all`, or names such as zvc,zfp:8,sz:0.15 (see
    /// `list codecs`). `all` leaves out error bounds above 1e-3, such as sz:1e-2
    #[arg(long, value_delimiter = ',', value_name = "CODECS", default_value = "none")]
    pub codecs: Vec<String>,

    /// Codec models that `fit` wrote [default: those that come with tidegate, modelled from the
    /// bandwidth of the machine's device memory]
    #[arg(long, value_name = "FILE")]
    pub codec_models: Option<PathBuf>,

    /// Codec models of the host's processor, for methods that compress there [default: those that
    /// come with tidegate, modelled from stated rates]
    #[arg(long, value_name = "FILE")]
    pub host_codec_models: Option<PathBuf>,

    /// Speed of the device's codecs as a share of what their models say, such as 20%
    #[arg(long, value_name = "SHARE", value_parser = share(0.1..=100_000.0))]
    pub codec_speed: Option<f64>,

    /// Share of zeros, such as 50%, of activations and gradients of which the trace states none
    #[arg(long, value_name = "SHARE", value_parser = share(0.0..=100.0))]
    pub sparsity: Option<f64>,

    /// Also codecs that change values, such as zfp
    #[arg(long)]
    pub lossy: bool,
}

impl CodecArgs {
    /// Whether no codec may be used.
    pub fn none(&self) -> bool {
        self.codecs == ["none"]
    }

    /// Reads what the arguments name, for a machine; nothing where no codec may be used.
    pub fn read(&self, machine: &Machine) -> Result<Option<CodecInputs>> {
        if self.none() {
            return match self.stated().into_iter().find(|(_, stated)| stated.is_some()) {
                Some((option, _)) => Err(usage(format!(
                    "--{option} says how codecs are used: name some, such as --codecs all"
                ))),
                None => Ok(None),
            };
        }
        let options = CodecOptions { sparsity: self.sparsity, lossy: self.lossy };
        let files = [self.codec_models.as_deref(), self.host_codec_models.as_deref()];
        let (models, host) = read_models(files, self.codec_speed, machine)?;
        Ok(Some(CodecInputs::named(&self.codecs, models, host, options)?))
    }

    /// What is said of how codecs are used, by the options' names.
    fn stated(&self) -> [(&'static str, Option<String>); 5] {
        let file = |file: &Option<PathBuf>| Some(file.as_ref()?.display().to_string());
        let percent = |share: Option<f64>| Some(format!("{}%", share? * 100.0));
        [
            ("codec-models", file(&self.codec_models)),
            ("host-codec-models", file(&self.host_codec_models)),
            ("codec-speed", percent(self.codec_speed)),
            ("sparsity", percent(self.sparsity)),
            ("lossy", self.lossy.then(|| "true".into())),
        ]
    }

    /// What a plan's settings say of these arguments.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let codecs = ("codecs", (!self.none()).then(|| self.codecs.join(",")));
        let stated = [codecs].into_iter().chain(self.stated());
        stated.filter_map(|(name, value)| Some((name, value?)))
    }
}
