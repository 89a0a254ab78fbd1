//! Tables of rows that a paper looks up, and what it prints of that.

use serde::Deserialize;

use super::paper::Value;

/// What a study asks about lookups in tables, without any plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct LookupStudy {
    pub title: String,
    pub machine: String,
    /// Rows of a table, all of which a lookup reads.
    pub rows: u64,
    #[serde(rename = "table")]
    pub tables: Vec<PackedTable>,
    /// The paper's figures.
    #[serde(rename = "figure")]
    pub figures: Vec<LookupFigure>,
    /// How networks are trained whose nodes' features the rows are.
    pub training: Option<GraphTraining>,
    /// What the paper prints of other codecs.
    #[serde(default, rename = "other")]
    pub others: Vec<OtherCodec>,
}

/// How GraphSAGE is trained on neighbours that are drawn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphTraining {
    /// Neighbours that are drawn of each node, from a batch's nodes on: a layer each.
    pub fanouts: Vec<u64>,
    /// How wide the layers are before the last.
    pub width: u64,
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
    /// The graph whose nodes' features the rows are.
    pub graph: Option<Graph>,
}

/// A graph that a network is trained on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Graph {
    pub nodes: u64,
    pub batch: u64,
    /// What nodes are told apart into.
    pub classes: u64,
    pub feature_bytes: u64,
}

/// A number that the paper prints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupFigure {
    /// Where, and of what.
    pub what: String,
    /// The number, or bounds of it.
    pub printed: Value,
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
    /// The models whose weights, or keys and values, the rows are, and what is asked of them: of several, the figure is
    /// the greatest of what each comes to.
    #[serde(default)]
    pub served: Vec<Served>,
    /// What else the prediction rests on, or why there is none.
    pub rests_on: Option<String>,
    /// Whether the model is chosen by it, so that it is no prediction.
    #[serde(default)]
    pub input: bool,
}

/// A language model in 16 bits, and what is asked of it.
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
    /// The share of its weights that each pass loads.
    pub loaded: f64,
    /// Of how many tokens of each prompt a pass fetches keys and values from the host, where all lie there.
    #[serde(default)]
    pub fetched: f64,
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
    /// What that is of the time of a model's answers whose keys and values the rows are.
    Decoding,
    /// Reading the prompts' share of that time, in percent.
    Prefill,
    /// Less time than a copy of rows that need not be gathered, in percent.
    Copied,
    /// What that is of the time of a model's answers whose weights the rows are.
    Inference,
    /// Less time than aligned reads of rows that are not packed, in percent.
    Packed,
    /// What packing saves, in percent.
    Saved,
    /// Rows that Legion keeps in memory for a hundredth of all rows.
    Hundredth,
    /// Throughput of training that fetches beside computing, with packed rows in host memory and in the cache over none
    /// packed: the tables' geometric mean.
    Trained,
    /// The same with those in host memory alone.
    TrainedLink,
    /// The same of training that fetches before it computes, without a cache.
    TrainedInTurn,
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
    pub(super) fn problem(&self) -> Option<String> {
        let known = |name: &String| self.tables.iter().any(|table| table.name == *name);
        let named = self.figures.iter().flat_map(|figure| &figure.tables);
        if let Some(name) = named.clone().find(|name| !known(name)) {
            return Some(format!(
                "a figure is of `{name}`, and there is no table of that name: add it"
            ));
        }
        if self.training.is_none() && self.tables.iter().any(|table| table.graph.is_some()) {
            return Some(
                "a table is of a graph, and nothing says how it is trained: add `training`".into(),
            );
        }
        let bad = |table: &&PackedTable| !(1.0..1e6).contains(&table.ratio) || table.row_bytes == 0;
        let bad = self.tables.iter().find(bad)?;
        Some(format!("`{}` needs rows of at least one byte and a ratio of at least 1", bad.name))
    }
}
