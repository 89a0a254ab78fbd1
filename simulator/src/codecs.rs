//! What each codec makes of each tensor, as the evaluator reads it.

use schema::{CodecCost, TensorId};

/// The costs of every codec for every tensor, in one flat array. A codec is named by its position.
#[derive(Debug, Clone, Default)]
pub struct Codecs {
    tensors: usize,
    costs: Vec<Option<CodecCost>>,
    lane: Option<CodecLane>,
    /// The same costs for the host's processor; empty where that runs no codec.
    there: Vec<Option<CodecCost>>,
}

/// A lane of their own for codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecLane {
    /// Speed of compute while a codec runs, in thousandths of its speed alone.
    pub beside_codec_permille: u16,
}

impl CodecLane {
    /// What compute loses while a codec runs, as a share of the codec's time.
    pub fn taken(self) -> f64 {
        1.0 - f64::from(self.beside_codec_permille) / 1000.0
    }
}

impl Codecs {
    /// No codec at all.
    pub const NONE: Self = Self { tensors: 0, costs: Vec::new(), lane: None, there: Vec::new() };

    /// The table of `tensors` tensors; `costs` holds that many for the first codec, then as many
    /// for the next.
    ///
    /// # Panics
    ///
    /// If that does not come out even, or there are more codecs than a [`Treatment`] can name.
    ///
    /// [`Treatment`]: crate::Treatment
    pub fn new(tensors: usize, costs: Vec<Option<CodecCost>>) -> Self {
        assert!(costs.is_empty() || costs.len().is_multiple_of(tensors), "a cost for each tensor");
        let codecs = Self { tensors, costs, lane: None, there: Vec::new() };
        assert!(codecs.len() <= usize::from(u8::MAX), "a treatment names a codec in a byte");
        codecs
    }

    /// Codecs that may run on a lane of their own, beside compute.
    pub fn with_lane(self, lane: Option<CodecLane>) -> Self {
        Self { lane, ..self }
    }

    /// The lane on which they may run beside compute, if there is one.
    pub fn lane(&self) -> Option<CodecLane> {
        self.lane
    }

    /// The table with what the same codecs cost on the host's processor.
    ///
    /// # Panics
    ///
    /// If there are not as many costs as the device has.
    pub fn with_host(mut self, costs: Vec<Option<CodecCost>>) -> Self {
        assert_eq!(costs.len(), self.costs.len(), "a cost for each codec and tensor");
        self.there = costs;
        self
    }

    /// Whether the host's processor runs codecs, too.
    pub fn has_host(&self) -> bool {
        !self.there.is_empty()
    }

    /// How many codecs there are.
    pub fn len(&self) -> usize {
        self.costs.len().checked_div(self.tensors).unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.costs.is_empty()
    }

    /// What a codec makes of a tensor; none where that does not help, or there is no such codec.
    pub fn cost(&self, codec: u8, tensor: TensorId) -> Option<&CodecCost> {
        self.costs.get(self.index(codec, tensor.0))?.as_ref()
    }

    /// The same where the host's processor does it.
    pub fn host_cost(&self, codec: u8, tensor: TensorId) -> Option<&CodecCost> {
        self.there.get(self.index(codec, tensor.0))?.as_ref()
    }

    /// All costs, by codec and then by tensor.
    pub(crate) fn all(&self) -> &[Option<CodecCost>] {
        &self.costs
    }

    /// Position of a codec's cost for a tensor in [`Codecs::all`].
    pub(crate) fn index(&self, codec: u8, tensor: u32) -> usize {
        usize::from(codec) * self.tensors + tensor as usize
    }
}
