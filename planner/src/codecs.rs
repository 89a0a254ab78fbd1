//! What a problem's codecs make of its tensors.

use schema::{
    CodecCost, CodecModel, CodecModels, CodecRef, Document, Fidelity, Reference, Role, Tensor,
    TensorId, Trace,
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
    /// Share of zeros of activations and gradients of which the trace states none.
    pub sparsity: Option<f64>,
}

/// Whether an iteration makes a tensor and is done with it.
pub(crate) fn is_transient(tensor: &Tensor) -> bool {
    matches!(tensor.role, Role::Activation | Role::Gradient)
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
            let transient = is_transient(tensor);
            if model.fidelity != Fidelity::Lossless && !transient {
                return None;
            }
            let stated = options.sparsity.filter(|_| transient);
            // A lossy codec makes dense tensors smaller, too.
            let dense = (model.fidelity != Fidelity::Lossless).then_some(0.0);
            let zeros = tensor.sparsity.or(stated).or(dense);
            model.cost_of(tensor.bytes, (zeros, tensor.texture), tensor.dtype)
        };
        let costs = allowed.iter().flat_map(|m| trace.tensors.iter().map(|t| cost(m, t)));
        Self {
            source: Some(Reference { name: models.device.clone(), digest: models.digest() }),
            codecs: allowed.iter().map(|model| model.codec_ref()).collect(),
            costs: Codecs::new(trace.tensors.len(), costs.collect()),
            sparsity: options.sparsity,
        }
    }

    /// The table with what the host's processor takes for the same codecs, by models of that. Sizes
    /// are those that the device's models state: the bytes are the same.
    pub fn with_host(mut self, trace: &Trace, host: &CodecModels, options: CodecOptions) -> Self {
        let there = Self::new(trace, host, options);
        let number = |codec: &CodecRef| there.codecs.iter().position(|other| other == codec);
        let mut costs = Vec::with_capacity(self.codecs.len() * trace.tensors.len());
        for (codec, of_codec) in (0u8..).zip(&self.codecs) {
            let number = number(of_codec).map(|number| number as u8);
            costs.extend((0..trace.tensors.len()).map(TensorId::from_index).map(|tensor| {
                let here = self.costs.cost(codec, tensor)?;
                let there = there.costs.cost(number?, tensor)?;
                Some(CodecCost { reserved: here.reserved, ..*there })
            }));
        }
        self.costs = self.costs.with_host(costs);
        self
    }
}
