//! A study as it stands in its file.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::error::StudyError;
use super::lookups::LookupStudy;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StudyFile {
    pub(super) description: String,
    /// The file of a paper's figures that results are held against.
    pub(super) paper: Option<Spanned<String>>,
    /// Lookups in tables, which need no plan.
    pub(super) lookups: Option<Spanned<LookupStudy>>,
    #[serde(default)]
    pub(super) group: Vec<Spanned<GroupTable>>,
}

/// A list whose entries know where they stand.
pub(super) type List<T> = Option<Spanned<Vec<Spanned<T>>>>;

/// One `[[group]]`: lists, of which each combination is a point.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    pub(super) name: Option<String>,
    pub(super) networks: List<String>,
    pub(super) traces: List<String>,
    pub(super) batches: List<i64>,
    pub(super) machines: List<String>,
    pub(super) links: List<String>,
    pub(super) budgets: List<String>,
    pub(super) host_memory: List<String>,
    pub(super) methods: List<String>,
    pub(super) allow: List<String>,
    pub(super) find: Option<Spanned<String>>,
    pub(super) evaluations: Option<Spanned<i64>>,
    pub(super) decided_on: Option<Spanned<String>>,
    pub(super) recorded_on: Option<Spanned<String>>,
    pub(super) images: List<[u32; 2]>,
    pub(super) activation: Option<Spanned<String>>,
    pub(super) dtype: Option<Spanned<String>>,
    pub(super) optimizer: Option<Spanned<String>>,
    pub(super) framework: Option<Spanned<String>>,
    pub(super) powers_of_two: Option<bool>,
    pub(super) frames: Option<u32>,
    pub(super) sequence: Option<u32>,
    pub(super) in_place: Option<bool>,
    pub(super) pool_indices: Option<bool>,
    pub(super) fused_attention: Option<bool>,
    pub(super) progress: Option<f64>,
    pub(super) speed: Option<Spanned<f64>>,
    pub(super) codecs: List<String>,
    pub(super) sparsity: Option<Spanned<String>>,
    pub(super) codec_speed: Option<Spanned<String>>,
    pub(super) lossy: Option<bool>,
    pub(super) epochs: Option<Spanned<u32>>,
    pub(super) at_epochs: List<u32>,
}

impl StudyFile {
    pub(super) fn read(text: &str, file: &Path) -> Result<Self, StudyError> {
        toml::from_str(text).map_err(|source| StudyError::Syntax {
            file: file.to_path_buf(),
            source: Box::new(source),
        })
    }
}
