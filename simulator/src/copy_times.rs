//! How long copies take.

use schema::TensorId;

use crate::Codecs;
use crate::parts::Swap;

/// What a copy costs, per tensor, and per compressed form by codec and tensor.
#[derive(Debug, Clone)]
pub(crate) struct CopyTimes {
    pub out: Vec<u64>,
    pub back: Vec<u64>,
    pub small_out: Vec<u64>,
    pub small_back: Vec<u64>,
}

impl CopyTimes {
    pub fn out(&self, codecs: &Codecs, swap: &Swap) -> u64 {
        let there = swap.there.and_then(|codec| codecs.host_cost(codec, TensorId(swap.tensor)));
        match swap.codec {
            _ if swap.at_no_cost => 0,
            None => self.out[swap.tensor as usize] + there.map_or(0, |cost| cost.compress.0),
            Some(codec) => self.small_out[codecs.index(codec, swap.tensor)],
        }
    }

    pub fn back(&self, codecs: &Codecs, swap: &Swap) -> u64 {
        let there = swap.there.and_then(|codec| codecs.host_cost(codec, TensorId(swap.tensor)));
        match swap.codec {
            _ if swap.at_no_cost => 0,
            None => self.back[swap.tensor as usize] + there.map_or(0, |cost| cost.decompress.0),
            Some(codec) => self.small_back[codecs.index(codec, swap.tensor)],
        }
    }
}
