//! Why a network could not be given, and what to do about it.

use std::path::PathBuf;

use schema::{FileError, Malformed};

use crate::suggest::remedy;

/// Why a network, or its trace, could not be given.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// No network of this name comes with tidegate.
    #[error("there is no network `{name}`: {}", remedy(closest, known))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Names that resemble it, the closest first.
        closest: Vec<String>,
        /// All names.
        known: Vec<String>,
    },
    /// An option that this network does not have, or a value that it cannot take.
    #[error("{network}: {option} {why}")]
    Option {
        /// The network.
        network: String,
        /// The option, as it is called on the command line.
        option: &'static str,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// A layer that does not fit what it is given.
    #[error("{network}: layer `{layer}` {why}")]
    Layer {
        /// The network, or the file that describes it.
        network: String,
        /// The layer.
        layer: String,
        /// What does not fit, and the remedy.
        why: LayerProblem,
    },
    /// A network file that is no TOML, or has a field that no layer has.
    #[error("{} is not a network file", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, column and what is wrong there.
        source: Box<toml::de::Error>,
    },
    /// A field that a layer of a network file lacks or must not have, or one with a bad value.
    #[error("{}: layer `{layer}`: {why}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The layer.
        layer: String,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// Bytes that are no ONNX model.
    #[error("{} is not an ONNX model: {why}", file.display())]
    OnnxFormat {
        /// The file.
        file: PathBuf,
        /// What is wrong with them.
        why: String,
    },
    /// A node of an ONNX graph that cannot be imported.
    #[error("{}: node `{node}` ({op}) {why}", file.display())]
    OnnxNode {
        /// The file.
        file: PathBuf,
        /// The node's name or, where it has none, its first output.
        node: String,
        /// Its operator.
        op: String,
        /// What is wrong and the remedy.
        why: String,
    },
    /// The efficiencies cannot be read.
    #[error("the efficiencies cannot be read: {0}")]
    Efficiencies(String),
    /// An iteration that no machine could run.
    #[error("{network}: {why}")]
    Invalid {
        /// The network.
        network: String,
        /// What is wrong.
        why: Malformed,
    },
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
pub enum LayerProblem {
    /// An input with the wrong number of dimensions.
    #[error(
        "needs an input of {expected} dimensions (batch first), but `{input}` has shape {shape:?}"
    )]
    Rank {
        /// What it needs.
        expected: &'static str,
        /// The layer that it reads.
        input: String,
        /// That layer's shape.
        shape: Vec<u64>,
    },
    /// A window larger than what it slides over.
    #[error(
        "has a window of {window} over {extent} with padding {padding}: make the window smaller or the image larger"
    )]
    Window {
        /// Extent of the window.
        window: u64,
        /// Extent of what it slides over.
        extent: u64,
        /// Padding on each side.
        padding: u64,
    },
    /// Groups that do not divide the channels.
    #[error("has {groups} groups, which do not divide {channels} channels")]
    Groups {
        /// The groups.
        groups: u64,
        /// Channels that they must divide.
        channels: u64,
    },
    /// Inputs whose shapes do not agree.
    #[error("cannot combine the shapes {left:?} and {right:?}")]
    Shapes {
        /// The first input's.
        left: Vec<u64>,
        /// The other's.
        right: Vec<u64>,
    },
    /// A figure of zero where there must be something.
    #[error("has {what} 0: it must be at least 1")]
    Zero {
        /// What is zero.
        what: &'static str,
    },
    /// More than any machine could hold.
    #[error("has {what} of more than 2^44: no machine could hold it")]
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// A reshape that does not keep the elements.
    #[error("cannot make {to:?} of {from:?}: the numbers of elements differ")]
    Reshape {
        /// The input's shape.
        from: Vec<u64>,
        /// The shape that is asked for.
        to: Vec<u64>,
    },
}
