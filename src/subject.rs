//! A network with its options in one word.

use std::fmt;
use std::str::FromStr;

use clap::{Args, FromArgMatches};
use schema::Recipe;

use crate::exit::Result;
use crate::networks::NetworkArgs;

/// A network and what is chosen about it, as `resnet18:batch=8:image=64`.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    text: String,
    pub name: String,
    options: NetworkArgs,
}

/// The networks that are checked where nobody names any.
pub fn standard() -> Vec<Subject> {
    experiments::check::STANDARD
        .iter()
        .map(|text| text.parse().expect("a test reads them all"))
        .collect()
}

impl Subject {
    pub fn recipe(&self) -> Result<Recipe> {
        self.options.recipe_to_run(&self.name)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options = options.split_terminator(':').map(|option| format!("--{option}"));
        let parser = clap::Command::new("options").no_binary_name(true).disable_help_flag(true);
        let parsed = NetworkArgs::augment_args(parser).try_get_matches_from(options);
        let options = parsed.and_then(|matches| NetworkArgs::from_arg_matches(&matches));
        let mut options = options.map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("{reason}: write options of networks as batch=8:image=64")
        })?;
        // What is checked is to be small.
        options.batch.get_or_insert(8);
        Ok(Self { text: text.into(), name: name.into(), options })
    }
}

#[cfg(test)]
mod tests {
    use experiments::recipes::computing;

    use super::*;

    #[test]
    fn all_that_is_checked_by_default_can_be_built() {
        for subject in standard() {
            let network = subject.recipe().map(|recipe| computing(&recipe));
            let network = network.is_ok_and(|network| network.is_ok_and(|it| !it.ops().is_empty()));
            assert!(network, "{subject}");
        }
    }
}
