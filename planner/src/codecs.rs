//! What a problem's codecs make of its tensors.

use schema::{
    CodecModel, CodecModels, CodecRef, Document, Fidelity, Reference, Role, Tensor, Trace,
};
use simulator::Codecs;

/// The codecs of a problem, and what each makes of each tensor.
#[derive(Debug, Clone, Default)]
pub struct CodecTable {
    /// The models that the costs come from; none: there is no codec.
    pub source: Option<Reference>,
    /// The codecs, as treatments name them.
    pub codecs: Vec<CodecRef>,
    /// Their costs, by codec and then by tensor.
    pub costs: Codecs,
}

/// Which codecs may be used, on what assumption about the data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CodecOptions {
    /// Share of zeros, from 0 to 1, of activations and gradients of which the trace states none.
    pub sparsity: Option<f64>,
    /// Also codecs that change values.
    pub lossy: bool,
}

impl CodecTable {
    /// The table of a trace.
    pub fn new(trace: &Trace, models: &CodecModels, options: CodecOptions) -> Self {
        let allowed = |model: &&CodecModel| options.lossy || model.fidelity == Fidelity::Lossless;
        let allowed: Vec<&CodecModel> = models.models.iter().filter(allowed).collect();
        let cost = |model: &CodecModel, tensor: &Tensor| {
            // Values that every iteration goes on from are never changed.
            let transient = matches!(tensor.role, Role::Activation | Role::Gradient);
            if model.fidelity != Fidelity::Lossless && !transient {
                return None;
            }
            let stated = options.sparsity.filter(|_| transient);
            model.cost(tensor.bytes, tensor.sparsity.or(stated), tensor.dtype)
        };
        let costs = allowed.iter().flat_map(|m| trace.tensors.iter().map(|t| cost(m, t)));
        Self {
            source: Some(Reference { name: models.device.clone(), digest: models.digest() }),
            codecs: allowed.iter().map(|model| model.codec_ref()).collect(),
            costs: Codecs::new(trace.tensors.len(), costs.collect()),
        }
    }
}
