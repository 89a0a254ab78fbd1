//! What can go wrong.

use schema::Dtype;

use crate::CodecId;

/// Why something could not be compressed, decompressed or named. Whatever the error, an output
/// buffer that was given holds unspecified bytes afterwards and nothing else has changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// No codec has this name.
    #[error("no codec is called `{name}`; there are {known}")]
    UnknownCodec { name: String, known: String },
    /// The codec exists, its parameter does not.
    #[error("codec `{codec}`: {reason}")]
    BadParameter { codec: String, reason: String },
    /// This build leaves the codec out.
    #[error("codec `{codec}` is not in this build; build with `--features {feature}`")]
    NotBuilt { codec: CodecId, feature: &'static str },
    /// The codec's kernels leave this out.
    #[error("no kernel {what}es with codec `{codec}`; do it on the host, or use another codec")]
    NoKernel { codec: CodecId, what: &'static str },
    /// The codec does not take elements of this type.
    #[error("codec `{codec}` does not take elements of type {dtype:?}; use another codec")]
    UnsupportedDtype { codec: CodecId, dtype: Dtype },
    /// A synthetic tensor that cannot be made.
    #[error("no such tensor can be made: {reason}")]
    BadRecipe { reason: &'static str },
    /// The system gives no threads.
    #[error("could not start {threads} threads")]
    NoThreads { threads: usize },
    /// A shape that cannot be.
    #[error("shape {shape:?}: {reason}")]
    BadShape { shape: Vec<usize>, reason: &'static str },
    /// The bytes are not as many as type and shape say.
    #[error("type and shape say {expected} bytes, the buffer has {actual}")]
    WrongLength { expected: usize, actual: usize },
    /// An output buffer is too small.
    #[error("the output needs {needed} bytes, the buffer has {available}; see `worst_case`")]
    OutputTooSmall { needed: usize, available: usize },
    /// A lossy codec was given an infinity or a NaN, which it cannot represent.
    #[error("codec `{codec}` takes finite values only, element {index} is not; use a lossless one")]
    NotFinite { codec: CodecId, index: usize },
    /// The payload is not what the codec writes.
    #[error("{codec} payload, block {block}: {reason}; the data is damaged or of another codec")]
    Corrupt { codec: CodecId, block: usize, reason: &'static str },
    /// A payload is not what it was when it was [sealed](crate::Seal).
    #[error("the payload is damaged: {reason}")]
    Damaged { reason: &'static str },
}
