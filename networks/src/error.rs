//! Why a network could not be given, and what to do about it.

use std::path::PathBuf;

use schema::{FileError, Malformed};

use crate::suggest::remedy;

/// Why a network, or its trace, could not be given.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NetworkError {
    /// No network of this name comes with tidegate.
    #[error("there is no network `{name}`: {}", remedy(closest, known))]
    Unknown { name: String, closest: Vec<String>, known: Vec<String> },
    /// An option that this network does not have, or a value that it cannot take.
    #[error("{network}: {option} {why}")]
    Option { network: String, option: &'static str, why: String },
    /// A layer that does not fit what it is given.
    #[error("{network}: layer `{layer}` {why}")]
    Layer { network: String, layer: String, why: LayerProblem },
    /// A network file that is no TOML, or has a field that no layer has.
    #[error("{} is not a network file", file.display())]
    Syntax { file: PathBuf, source: Box<toml::de::Error> },
    /// A field that a layer of a network file lacks or must not have, or one with a bad value.
    #[error("{}: layer `{layer}`: {why}", file.display())]
    Field { file: PathBuf, layer: String, why: String },
    /// Bytes that are no ONNX model.
    #[error("{} is not an ONNX model: {why}", file.display())]
    OnnxFormat { file: PathBuf, why: String },
    /// A node of an ONNX graph that cannot be imported.
    #[error("{}: node `{node}` ({op}) {why}", file.display())]
    OnnxNode { file: PathBuf, node: String, op: String, why: String },
    /// The efficiencies cannot be read.
    #[error("the efficiencies cannot be read: {0}")]
    Efficiencies(String),
    /// An iteration that no machine could run.
    #[error("{network}: {why}")]
    Invalid { network: String, why: Malformed },
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl NetworkError {
    /// The same error, naming the file that describes the network.
    pub(crate) fn in_file(mut self, file: &std::path::Path) -> Self {
        if let Self::Layer { network, .. } = &mut self {
            *network = file.display().to_string();
        }
        self
    }
}

/// What does not fit at a layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum LayerProblem {
    /// An input with the wrong number of dimensions.
    #[error(
        "needs an input of {expected} dimensions (batch first), but `{input}` has shape {shape:?}"
    )]
    Rank { expected: &'static str, input: String, shape: Vec<u64> },
    /// A window larger than what it slides over.
    #[error(
        "has a window of {window} over {extent} with padding {padding}: make the window smaller or the image larger"
    )]
    Window { window: u64, extent: u64, padding: u64 },
    /// Groups that do not divide the channels.
    #[error("has {groups} groups, which do not divide {channels} channels")]
    Groups { groups: u64, channels: u64 },
    /// Inputs whose shapes do not agree.
    #[error("cannot combine the shapes {left:?} and {right:?}")]
    Shapes { left: Vec<u64>, right: Vec<u64> },
    /// A figure of zero where there must be something.
    #[error("has {what} 0: it must be at least 1")]
    Zero { what: &'static str },
    /// More than any machine could hold.
    #[error("has {what} of more than 2^44: no machine could hold it")]
    TooLarge { what: &'static str },
    /// A reshape that does not keep the elements.
    #[error("cannot make {to:?} of {from:?}: the numbers of elements differ")]
    Reshape { from: Vec<u64>, to: Vec<u64> },
}
