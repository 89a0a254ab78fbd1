//! Tables of rows that a paper looks up, and what it prints of that.

use serde::Deserialize;

/// What a study asks about lookups in tables, without any plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupStudy {
    /// The publication.
    pub title: String,
    /// The machine.
    pub machine: String,
    /// Rows of a table, all of which a lookup reads.
    pub rows: u64,
    /// The tables.
    #[serde(rename = "table")]
    pub tables: Vec<PackedTable>,
    /// The paper's figures.
    #[serde(rename = "figure")]
    pub figures: Vec<LookupFigure>,
    /// What the paper prints of other codecs.
    #[serde(default, rename = "other")]
    pub others: Vec<OtherCodec>,
}

/// A table as a paper describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedTable {
    /// Its name.
    pub name: String,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Uncompressed over packed bytes.
    pub ratio: f64,
    /// Rows that the paper's cache holds without packing.
    pub cached: Option<u64>,
}

/// A number that the paper prints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupFigure {
    /// Where, and of what.
    pub what: String,
    /// The number.
    pub printed: f64,
    /// How it is worked out; absent where it cannot be.
    pub of: Option<LookupQuantity>,
    /// The tables of which it is the mean.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Bytes of a row, where it is of no table.
    pub row_bytes: Option<u64>,
    /// Rows, bytes of a chunk, clusters, and what packing saves in percent: what the format alone comes to is of these.
    pub rows: Option<u64>,
    #[allow(missing_docs, reason = "as `rows`")]
    pub chunk_bytes: Option<usize>,
    #[allow(missing_docs, reason = "as `rows`")]
    pub clusters: Option<usize>,
    #[allow(missing_docs, reason = "as `rows`")]
    pub saved: Option<f64>,
    /// What is asked of the model whose weights the rows are.
    pub served: Option<Served>,
    /// What else the prediction rests on, or why there is none.
    pub rests_on: Option<String>,
    /// Whether the model is chosen by it, so that it is no prediction.
    #[serde(default)]
    pub input: bool,
}

/// A language model in 16 bits, all of whose weights each pass loads, and what is asked of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Its weights.
    pub parameters: f64,
    /// Prompts at a time.
    pub batch: f64,
    /// Tokens of each.
    pub prompt: f64,
    /// Tokens that follow.
    pub generated: f64,
    /// Bytes of a token's keys and values, of all layers.
    pub cache_bytes: f64,
}

/// How a figure follows from tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LookupQuantity {
    /// Throughput of packed rows over that of unaligned reads.
    Transfer,
    /// Throughput of aligned reads over unaligned ones.
    Aligned,
    /// Throughput of rows of which 90 % are saved over that of their transfer alone.
    Mock,
    /// Packed rows in a cache of the size that holds `cached` others.
    Cached,
    /// Throughput of packed rows over that of rows that the host gathers.
    Lookup,
    /// Less time than that takes, in percent.
    Gathered,
    /// Less time than a copy of rows that need not be gathered, in percent.
    Copied,
    /// What that is of the time of a model's answers whose weights the rows are.
    Inference,
    /// What a row's participation bits take of it, in percent.
    Participation,
    /// What is saved beside Mask, Bitval and cluster of each row, in percent.
    NetSaved,
    /// The mask of rows that are packed, in 1e6 bytes.
    RowMask,
}

/// Another codec by the paper's own measurements: one figure for each column of its tables.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherCodec {
    /// Its name.
    pub name: String,
    /// Throughput over that without packing.
    pub transfer: Vec<f64>,
    /// Space saved, in percent.
    pub saved: Vec<f64>,
}

impl LookupStudy {
    /// What is wrong with it, or nothing.
    pub(super) fn problem(&self) -> Option<String> {
        let known = |name: &String| self.tables.iter().any(|table| table.name == *name);
        let named = self.figures.iter().flat_map(|figure| &figure.tables);
        if let Some(name) = named.clone().find(|name| !known(name)) {
            return Some(format!(
                "a figure is of `{name}`, and there is no table of that name: add it"
            ));
        }
        let bad = |table: &&PackedTable| !(1.0..1e6).contains(&table.ratio) || table.row_bytes == 0;
        let bad = self.tables.iter().find(bad)?;
        Some(format!("`{}` needs rows of at least one byte and a ratio of at least 1", bad.name))
    }
}
