//! What can go wrong.

use schema::Dtype;

use crate::CodecId;

/// Why something could not be compressed, decompressed or named. Whatever the error, an output
/// buffer that was given holds unspecified bytes afterwards and nothing else has changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    #[error("no codec is called `{name}`; there are {known}")]
    UnknownCodec { name: String, known: String },
    #[error("codec `{codec}`: {reason}")]
    BadParameter { codec: String, reason: String },
    #[error("codec `{codec}` is not in this build; build with `--features {feature}`")]
    NotBuilt { codec: CodecId, feature: &'static str },
    #[error("no kernel {what}es with codec `{codec}`; do it on the host, or use another codec")]
    NoKernel { codec: CodecId, what: &'static str },
    #[error("codec `{codec}` does not take elements of type {dtype:?}; use another codec")]
    UnsupportedDtype { codec: CodecId, dtype: Dtype },
    #[error("no such tensor can be made: {reason}")]
    BadRecipe { reason: &'static str },
    #[error("could not start {threads} threads")]
    NoThreads { threads: usize },
    #[error("shape {shape:?}: {reason}")]
    BadShape { shape: Vec<usize>, reason: &'static str },
    #[error("type and shape say {expected} bytes, the buffer has {actual}")]
    WrongLength { expected: usize, actual: usize },
    #[error("the output needs {needed} bytes, the buffer has {available}; see `worst_case`")]
    OutputTooSmall { needed: usize, available: usize },
    #[error("codec `{codec}` takes finite values only, element {index} is not; use a lossless one")]
    NotFinite { codec: CodecId, index: usize },
    #[error("{codec} payload, block {block}: {reason}; the data is damaged or of another codec")]
    Corrupt { codec: CodecId, block: usize, reason: &'static str },
    /// A payload is not what it was when it was [sealed](crate::Seal).
    #[error("the payload is damaged: {reason}")]
    Damaged { reason: &'static str },
}
