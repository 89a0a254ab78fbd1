//! What can go wrong.

use schema::Dtype;

use crate::CodecId;

/// Why something could not be compressed, decompressed or named. Whatever the error, an output
/// buffer that was given holds unspecified bytes afterwards and nothing else has changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No codec has this name.
    #[error("no codec is called `{name}`; there are {known}")]
    UnknownCodec {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The codec exists, its parameter does not.
    #[error("codec `{codec}`: {reason}")]
    BadParameter {
        /// The codec as it was written.
        codec: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// This build leaves the codec out.
    #[error("codec `{codec}` is not in this build; build with `--features {feature}`")]
    NotBuilt {
        /// The codec.
        codec: CodecId,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// The codec's kernels leave this out.
    #[error("no kernel {what}es with codec `{codec}`; do it on the host, or use another codec")]
    NoKernel {
        /// The codec.
        codec: CodecId,
        /// What was asked for: `compress` or `decompress`.
        what: &'static str,
    },
    /// The codec does not take elements of this type.
    #[error("codec `{codec}` does not take elements of type {dtype:?}; use another codec")]
    UnsupportedDtype {
        /// The codec.
        codec: CodecId,
        /// The element type.
        dtype: Dtype,
    },
    /// A synthetic tensor that cannot be made.
    #[error("no such tensor can be made: {reason}")]
    BadRecipe {
        /// What is wrong.
        reason: &'static str,
    },
    /// The system does not have the memory.
    #[error("no memory for a tensor of {bytes} bytes; set a limit to what there is")]
    NoMemory {
        /// Bytes of the tensor.
        bytes: usize,
    },
    /// The system gives no threads.
    #[error("could not start {threads} threads")]
    NoThreads {
        /// How many were wanted.
        threads: usize,
    },
    /// A shape that cannot be.
    #[error("shape {shape:?}: {reason}")]
    BadShape {
        /// The shape.
        shape: Vec<usize>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The bytes are not as many as type and shape say.
    #[error("type and shape say {expected} bytes, the buffer has {actual}")]
    WrongLength {
        /// Bytes by type and shape.
        expected: usize,
        /// Bytes of the buffer.
        actual: usize,
    },
    /// An output buffer is too small.
    #[error("the output needs {needed} bytes, the buffer has {available}; see `worst_case`")]
    OutputTooSmall {
        /// Bytes needed at worst.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
    /// A lossy codec was given an infinity or a NaN, which it cannot represent.
    #[error("codec `{codec}` takes finite values only, element {index} is not; use a lossless one")]
    NotFinite {
        /// The codec.
        codec: CodecId,
        /// Index of the first such element.
        index: usize,
    },
    /// The payload is not what the codec writes.
    #[error("{codec} payload, block {block}: {reason}; the data is damaged or of another codec")]
    Corrupt {
        /// The codec.
        codec: CodecId,
        /// Which block of the payload, counted from 0.
        block: usize,
        /// What does not hold.
        reason: &'static str,
    },
    /// The buffer is not a frame, or not a whole one.
    #[error("not a readable frame: {reason}")]
    BadFrame {
        /// What does not hold.
        reason: &'static str,
    },
    /// The frame ends too early or too late.
    #[error("the frame should be {expected} bytes long and is {actual}: cut off or appended to")]
    WrongFrameLength {
        /// Bytes by its header; of the header itself when there is not even that.
        expected: u64,
        /// Bytes that there are.
        actual: u64,
    },
    /// The frame is of a version that this build does not know.
    #[error("the frame has version {found}, this build reads {known}; use a newer tidegate")]
    UnknownVersion {
        /// The frame's version.
        found: u16,
        /// The version that is read.
        known: u16,
    },
    /// The tensor is larger than the caller allows.
    #[error("the frame holds a tensor of {declared} bytes, over the limit of {limit}")]
    OverLimit {
        /// Bytes of the tensor.
        declared: u64,
        /// The caller's limit.
        limit: u64,
    },
}
