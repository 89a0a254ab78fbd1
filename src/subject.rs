//! A network with its options in one word.

use std::fmt;
use std::str::FromStr;

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

/// What is checked where nobody names networks: different kinds, each small enough for a processor.
const STANDARD: [&str; 6] = [
    "plain20:batch=32:image=32",
    "squeezenet:batch=8:image=128",
    "mobilenet-v2:batch=8:image=96",
    "efficientnet-b0:batch=8:image=96",
    "vit-ti16:batch=4",
    "stories260k:batch=2",
];

/// The networks that are checked where nobody names any.
pub fn standard() -> Vec<Subject> {
    STANDARD.iter().map(|text| text.parse().expect("a test reads them all")).collect()
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
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_string();
        let mut options = NetworkArgs::default();
        for part in parts {
            set(&mut options, part)
                .ok_or_else(|| format!("`{part}` is no option: write {}", KNOWN.join(", ")))?;
        }
        options.batch.get_or_insert(DEFAULT_BATCH);
        Ok(Self { text: text.into(), name, options })
    }
}

const KNOWN: [&str; 7] = [
    "batch=8",
    "image=64",
    "sequence=128",
    "frames=16",
    "activation=relu",
    "dtype=bf16",
    "unfused-attention",
];

const DEFAULT_BATCH: u32 = 8;

fn set(options: &mut NetworkArgs, part: &str) -> Option<()> {
    let number = |text: &str| text.parse().ok().filter(|number: &u32| *number > 0);
    match part.split_once('=') {
        None if part == "unfused-attention" => options.unfused_attention = true,
        None => return None,
        Some(("batch", value)) => options.batch = Some(number(value)?),
        Some(("image", value)) => options.image = Some([number(value)?; 2]),
        Some(("sequence", value)) => options.sequence = Some(number(value)?),
        Some(("frames", value)) => options.frames = Some(number(value)?),
        Some(("activation", value)) => options.activation = Some(value.into()),
        Some(("dtype", value)) => options.dtype = Some(value.into()),
        Some(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use experiments::recipes::computing;

    use super::*;

    #[test]
    fn options_follow_the_name() {
        let subject: Subject = "resnet18:batch=4:image=64".parse().expect("well formed");
        assert_eq!(subject.name, "resnet18");
        assert_eq!((subject.options.batch, subject.options.image), (Some(4), Some([64, 64])));
        let subject: Subject = "bert-tiny".parse().expect("well formed");
        assert_eq!(subject.options.batch, Some(DEFAULT_BATCH));
    }

    #[test]
    fn what_is_no_option_is_refused_with_what_there_is() {
        for text in ["a:batch", "a:batch=0", "a:size=3", "a:"] {
            let error = text.parse::<Subject>().expect_err(text);
            assert!(error.contains("write batch="), "{error}");
        }
    }

    #[test]
    fn all_that_is_checked_by_default_can_be_built() {
        for subject in standard() {
            let network = subject.recipe().map(|recipe| computing(&recipe));
            let network = network.is_ok_and(|network| network.is_ok_and(|it| !it.ops().is_empty()));
            assert!(network, "{subject}");
        }
    }
}
