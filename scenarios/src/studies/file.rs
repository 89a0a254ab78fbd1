//! A study as it stands in its file.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::error::StudyError;
use super::lookups::LookupStudy;

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
    /// Groups of the file with something else supposed.
    #[serde(default)]
    pub(super) what_if: Vec<Spanned<GroupTable>>,
}

/// A list whose entries know where they stand.
pub(super) type List<T> = Option<Spanned<Vec<Spanned<T>>>>;

/// Declares a table whose fields may all be absent, and how one stands in for another's.
macro_rules! group_table {
    ($($field:ident: $type:ty,)*) => {
        /// One `[[group]]`: lists, of which each combination is a point; or one `[[what_if]]`, which has
        /// the groups that it is of, and fields that replace theirs.
        #[derive(Debug, Clone, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct GroupTable {
            $(pub(super) $field: $type,)*
        }

        impl GroupTable {
            /// This table's fields, and another's where it has none.
            pub(super) fn or(self, other: &Self) -> Self {
                Self { $($field: self.$field.or_else(|| other.$field.clone()),)* }
            }
        }
    };
}

group_table! {
    name: Option<String>,
    description: Option<String>,
    of: List<String>,
    networks: List<String>,
    traces: List<String>,
    batches: List<i64>,
    machines: List<String>,
    links: List<String>,
    budgets: List<String>,
    host_memory: List<String>,
    methods: List<String>,
    allow: List<String>,
    find: Option<Spanned<String>>,
    evaluations: Option<Spanned<i64>>,
    decided_on: Option<Spanned<String>>,
    recorded_on: Option<Spanned<String>>,
    profiled: Option<bool>,
    images: List<[u32; 2]>,
    activation: Option<Spanned<String>>,
    dtype: Option<Spanned<String>>,
    optimizer: Option<Spanned<String>>,
    ranks: Option<Spanned<u32>>,
    update_in_backward: Option<bool>,
    framework: Option<Spanned<String>>,
    powers_of_two: Option<bool>,
    frames: Option<u32>,
    sequence: Option<u32>,
    in_place: Option<bool>,
    pool_indices: Option<bool>,
    fused_attention: Option<bool>,
    progress: Option<f64>,
    speed: Option<Spanned<f64>>,
    codecs: List<String>,
    sparsity: Option<Spanned<String>>,
    codec_speed: Option<Spanned<String>>,
    codec_size: Option<Spanned<String>>,
    lossy: Option<bool>,
    epochs: Option<Spanned<u32>>,
    at_epochs: List<u32>,
}

impl StudyFile {
    pub(super) fn read(text: &str, file: &Path) -> Result<Self, StudyError> {
        toml::from_str(text).map_err(|source| StudyError::Syntax {
            file: file.to_path_buf(),
            source: Box::new(source),
        })
    }
}
