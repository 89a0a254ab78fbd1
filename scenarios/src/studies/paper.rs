//! Figures that a paper prints, to hold a study's results against.

use serde::{Deserialize, Serialize};

/// The figures of a paper that come with tidegate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// What its study and its file are called.
    #[serde(skip)]
    pub name: String,
    /// The publication.
    pub title: String,
    /// Its figures, in the order of the paper.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
}

/// One figure, and the rows of the study that predict it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is of, in a few words.
    pub what: String,
    /// What the paper prints.
    pub printed: Value,
    /// Where the paper prints it.
    pub source: String,
    /// How it is worked out from a row.
    pub quantity: Quantity,
    /// The groups whose rows predict it.
    pub groups: Vec<String>,
    /// The machines; all where there are none.
    #[serde(default)]
    pub machines: Vec<String>,
    /// The networks; all where there are none.
    #[serde(default)]
    pub networks: Vec<String>,
    /// The batches; all where there are none.
    #[serde(default)]
    pub batches: Vec<u32>,
    /// The method.
    pub method: String,
    /// The method that it is a ratio to, for [`Quantity::Speedup`], `Gain`, `Reduction`,
    /// `LessMs`, `Latency`, `Faster`, `Scaling` and `Saving`.
    pub over: Option<String>,
    /// The group of the rows that it is a ratio to, where it is another.
    pub over_group: Option<String>,
    /// What it is of several rows. Absent: the value that is farthest from what is printed.
    pub of: Option<Of>,
    /// What it would take to predict it, where nothing does.
    pub missing: Option<String>,
    /// What else the paper prints, or its sources, that does not agree with it.
    pub contradicted: Option<String>,
    /// Whether the study's assumptions are chosen by it, so that it is no prediction.
    #[serde(default)]
    pub input: bool,
}

/// A number, or bounds of one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// The number.
    Number(f64),
    /// The least and the greatest that it may be.
    Bounds([f64; 2]),
}

/// How a figure is worked out from a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Samples per second.
    Throughput,
    /// Loss of throughput against the iteration without a memory limit, in percent.
    Degradation,
    /// Throughput over that of another method under the same conditions.
    Speedup,
    /// The same less one, in percent.
    Gain,
    /// Time less than that of another method under the same conditions, in percent of that.
    Reduction,
    /// Time less than that of another method under the same conditions, in milliseconds.
    LessMs,
    /// Time beyond the iteration without a memory limit less than that of another method, in percent
    /// of that: swapping's latency.
    Latency,
    /// 1 where the method is faster than another under the same conditions, else 0.
    Faster,
    /// Tensors that are compressed.
    Compressed,
    /// What tensors take that are compressed, over what is expected of their compressed forms.
    Ratio,
    /// Time more than the iteration without a memory limit, in percent.
    Overhead,
    /// Samples per iteration: the largest batch, where that is searched for.
    Batch,
    /// Largest sum of live buffers, in 1e9 bytes.
    PeakGb,
    /// What tensors take that are compressed, in 1e9 bytes.
    RawGb,
    /// Device memory that the iteration needs without a limit, over the largest sum of live buffers.
    Spared,
    /// Throughput over that in another group, whatever the batches.
    Scaling,
    /// A sample's time less than in another group, whatever the batches, in percent of that.
    Saving,
    /// Feature maps that stay on the device.
    Kept,
    /// Feature maps that are swapped.
    Swapped,
    /// Feature maps that are made again.
    Recomputed,
    /// Device memory that the iteration needs without a limit, in 1e9 bytes.
    MemoryGb,
    /// 1 where there is a plan, 0 where there is none.
    Runs,
    /// What nothing here predicts: what a training on data that does not come with tidegate comes to,
    /// or what was measured on a device.
    Unpredicted,
}

/// What is made of several rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The mean over networks, each the mean of its rows.
    Mean,
    /// The harmonic mean over them: of factors by which something becomes less, what the mean of the shares comes to.
    Harmonic,
    /// The greatest of the networks' means.
    Most,
    /// The least of them.
    Least,
    /// The greatest of all rows.
    Highest,
    /// The least of all rows.
    Lowest,
}

const BUNDLED: &[(&str, &str)] = &[
    ("comet", include_str!("../../studies/papers/comet.toml")),
    ("cswap", include_str!("../../studies/papers/cswap.toml")),
    ("pooch", include_str!("../../studies/papers/pooch.toml")),
];

/// The figures of a paper, or the names of those that there are.
pub(super) fn paper(name: &str) -> Result<Paper, String> {
    let known: Vec<&str> = BUNDLED.iter().map(|(name, _)| *name).collect();
    let Some((_, text)) = BUNDLED.iter().find(|(known, _)| *known == name) else {
        return Err(format!(
            "no figures of `{name}` come with tidegate: write {}, or delete the line",
            known.join(", ")
        ));
    };
    let paper = toml::from_str(text);
    let paper = paper.map_err(|error| format!("papers/{name}.toml cannot be read: {error}"))?;
    Ok(Paper { name: name.into(), ..paper })
}
