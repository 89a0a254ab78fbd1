//! Codecs as they are chosen on the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use planner::{CodecOptions, Problem};
use schema::{
    CodecModel, CodecModels, Document, Fidelity, Machine, Reference, Role, Tensor, Trace,
};

use crate::exit::{Result, usage};

/// Which codecs a plan may use, and what it assumes of the data.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Options of codecs")]
pub struct CodecArgs {
    /// What a method may compress with: `none`, `all`, or names such as zvc,lz4,zfp:8 (see `list
    /// codecs`). `all` leaves out error bounds above 1e-3, such as sz:1e-2
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
    #[arg(long, value_name = "SHARE", value_parser = speed)]
    pub codec_speed: Option<f64>,

    /// Share of zeros, such as 50%, of activations and gradients of which the trace states none
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub sparsity: Option<f64>,

    /// Also codecs that change values, such as zfp
    #[arg(long)]
    pub lossy: bool,
}

/// What `CodecArgs` name.
pub struct CodecInputs {
    /// Models of all codecs, as the plan's reference names them.
    pub models: CodecModels,
    /// Those that may be used.
    pub chosen: CodecModels,
    /// Models of codecs on the host's processor.
    pub host: CodecModels,
    /// On what assumption.
    pub options: CodecOptions,
}

impl CodecInputs {
    /// Models that were just fitted, all of which may be used, lossy ones too.
    pub fn measured(models: &CodecModels) -> Self {
        Self {
            models: models.clone(),
            chosen: models.clone(),
            host: scenarios::host_codec_models(),
            options: CodecOptions { sparsity: None, lossy: true },
        }
    }

    /// The problem with these codecs.
    pub fn apply<'a>(&self, problem: Problem<'a>) -> Problem<'a> {
        self.apply_models(problem, &self.chosen)
    }

    /// The problem with the codecs of other models in place of those that may be used.
    pub fn apply_models<'a>(&self, problem: Problem<'a>, models: &CodecModels) -> Problem<'a> {
        problem
            .with_codecs(models, self.options)
            .with_host_codecs(&self.host, self.options)
            // The document that a user can look at, not the part of it that may be used.
            .with_codec_source(self.reference())
    }

    /// What a plan says that its codecs rest on.
    pub fn reference(&self) -> Reference {
        Reference { name: self.models.device.clone(), digest: self.models.digest() }
    }

    /// What sizes and times rest on, and where codecs run, a line each.
    pub fn assumptions(&self, trace: &Trace, machine: &Machine) -> String {
        let transient = |t: &&Tensor| matches!(t.role, Role::Activation | Role::Gradient);
        let all = trace.tensors.iter().filter(transient).count();
        let known = trace.tensors.iter().filter(transient).filter(|t| t.sparsity.is_some()).count();
        let unknown = match self.options.sparsity {
            _ if known == all => String::new(),
            Some(share) => format!(", the others are taken for {:.0} % zeros", 100.0 * share),
            None => ", the others do not, and what depends on it leaves them as they are: state \
                     --sparsity"
                .into(),
        };
        let compute = &machine.device.compute;
        let lane = match compute.codec_lane {
            true if compute.beside_codec < 1.0 => format!(
                "codecs have a lane of their own and slow compute to {:.0} % while they run",
                100.0 * compute.beside_codec
            ),
            true => "codecs have a lane of their own and do not slow compute".into(),
            false => "codecs run on compute".into(),
        };
        format!(
            "codecs are {}; {known} of {all} activations and gradients state their share of \
             zeros{unknown}\n{lane}",
            self.models.source
        )
    }
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0);
    let share = share.filter(|share| (0.001..=1000.0).contains(share));
    share.ok_or_else(|| "write a share such as 20%, from 0.1% to 100000%".into())
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0% to 100%".into())
}

impl CodecArgs {
    /// Whether no codec may be used.
    pub fn none(&self) -> bool {
        self.codecs == ["none"]
    }

    /// Reads what the arguments name, for a machine; nothing where no codec may be used.
    pub fn read(&self, machine: &Machine) -> Result<Option<CodecInputs>> {
        if self.none() {
            let alone = [
                ("--codec-models", self.codec_models.is_some()),
                ("--host-codec-models", self.host_codec_models.is_some()),
                ("--codec-speed", self.codec_speed.is_some()),
                ("--sparsity", self.sparsity.is_some()),
                ("--lossy", self.lossy),
            ];
            return match alone.iter().find(|(_, stated)| *stated) {
                Some((option, _)) => Err(usage(format!(
                    "{option} says how codecs are used: name some, such as --codecs all"
                ))),
                None => Ok(None),
            };
        }
        let mut models = match &self.codec_models {
            Some(file) => CodecModels::read(Path::new(file))?,
            None => scenarios::codec_models(machine),
        };
        if let Some(share) = self.codec_speed {
            models = models.at_speed(share);
        }
        let host = match &self.host_codec_models {
            Some(file) => CodecModels::read(Path::new(file))?,
            None => scenarios::host_codec_models(),
        };
        let chosen = CodecModels { models: self.chosen(&models)?, ..models.clone() };
        let options = CodecOptions { sparsity: self.sparsity, lossy: self.lossy };
        Ok(Some(CodecInputs { models, chosen, host, options }))
    }

    /// The models of the codecs that are named, in the document's order.
    fn chosen(&self, models: &CodecModels) -> Result<Vec<CodecModel>> {
        if self.codecs == ["all"] {
            // Larger errors are for who asks for them.
            let bound =
                |m: &&CodecModel| m.parameter.filter(|_| m.fidelity == Fidelity::ErrorBounded);
            let may = |m: &&CodecModel| bound(m).is_none_or(|bound| bound <= 1e-3);
            return Ok(models.models.iter().filter(may).cloned().collect());
        }
        for name in &self.codecs {
            let named: Vec<_> = models.models.iter().filter(|m| is_named(m, name)).collect();
            if named.is_empty() {
                let known: Vec<_> = models.models.iter().map(argument).collect();
                return Err(usage(format!(
                    "--codecs: there is no model of `{name}`: write none, all, or some of {}",
                    known.join(",")
                )));
            }
            if !self.lossy && named.iter().all(|m| m.fidelity != Fidelity::Lossless) {
                return Err(usage(format!(
                    "--codecs: {name} changes values: allow that with --lossy"
                )));
            }
        }
        let named = |m: &&CodecModel| self.codecs.iter().any(|name| is_named(m, name));
        Ok(models.models.iter().filter(named).cloned().collect())
    }

    /// What a plan's settings say of these arguments.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        if self.none() {
            return Vec::new();
        }
        let mut settings = vec![("codecs", self.codecs.join(","))];
        let file = self.codec_models.as_ref();
        settings.extend(file.map(|file| ("codec-models", file.display().to_string())));
        let file = self.host_codec_models.as_ref();
        settings.extend(file.map(|file| ("host-codec-models", file.display().to_string())));
        let percent = |share: f64| format!("{}%", share * 100.0);
        settings.extend(self.codec_speed.map(|share| ("codec-speed", percent(share))));
        settings.extend(self.sparsity.map(|share| ("sparsity", format!("{}%", share * 100.0))));
        settings.extend(self.lossy.then(|| ("lossy", "true".into())));
        settings
    }
}

/// Whether the text names the model: `zfp` names it at any rate, `zfp:8` at one.
fn is_named(model: &CodecModel, text: &str) -> bool {
    match text.split_once(':') {
        None => text == model.codec,
        Some((codec, parameter)) => {
            codec == model.codec
                && model.parameter.is_some()
                && parameter.parse().ok() == model.parameter
        }
    }
}

/// The model's name as an argument.
fn argument(model: &CodecModel) -> String {
    match model.parameter {
        Some(parameter) if parameter < 0.1 => format!("{}:{parameter:e}", model.codec),
        Some(parameter) => format!("{}:{parameter}", model.codec),
        None => model.codec.clone(),
    }
}
