//! What it takes to have a tensor when a place has been passed.

use schema::{Bytes, Direction, TensorId};

use crate::Problem;
use crate::runs::Way;

pub(super) const ROWS: usize = 7;

/// Bytes on the device when the op at the place starts.
pub(super) const MEMORY: usize = 0;
/// Time of copies out before that.
pub(super) const OUT: usize = 1;
/// What compute loses before that.
pub(super) const LOST: usize = 2;
/// Time of compressions before that, where codecs have a lane of their own.
pub(super) const CODE: usize = 3;
/// Time of copies in from then on.
pub(super) const IN: usize = 4;
/// What compute loses from then on: reruns, codecs, and what copies slow it by.
pub(super) const SPENT: usize = 5;
/// Time of decompressions from then on, where codecs have a lane of their own.
pub(super) const DECODE: usize = 6;

/// By row: what something takes, or what a unit of that costs.
pub(super) type Rows = [u64; ROWS];

/// No single time or size counts for more, so that sums of products stay far from the end of
/// numbers.
const MOST: u64 = 1 << 50;

/// What each tensor takes in each way that it has, reruns aside.
#[derive(Debug)]
pub(super) struct Ways {
    ways: Vec<Rows>,
    /// What each is; none where the tensor stays on the device.
    kinds: Vec<Option<Way>>,
    /// By tensor: where its ways end.
    ends: Vec<u32>,
}

impl Ways {
    pub fn new(problem: &Problem) -> Self {
        let mut ways = Self { ways: Vec::new(), kinds: Vec::new(), ends: Vec::new() };
        let may = problem.allowed;
        let codecs = if may.compress { problem.codecs.costs.len() as u8 } else { 0 };
        let lane = problem.codecs.costs.lane().filter(|_| codecs > 0);
        let (link, memory) = (&problem.machine.link, |bytes: Bytes| bytes.0.min(MOST));
        // Codecs beside compute slow it by this much of their time; on its lane they have all of
        // it.
        let permille = lane.map_or(0, |lane| u64::from(lane.beside_codec_permille));
        let taken = |time: u64| time * (1000 - permille) / 1000;
        // What slows compute at once is not added up: copies count where codecs have no lane.
        let beside_copy = (link.beside_copy * 1000.0).round().clamp(100.0, 1000.0) as u64;
        let slows = |time: u64| if lane.is_none() { time * (1000 - beside_copy) / 1000 } else { 0 };
        let swapped = |bytes: Bytes| {
            let [out, back] = [Direction::D2h, Direction::H2d]
                .map(|direction| link.copy_time(direction, bytes).0.min(MOST));
            [0, out, slows(out), 0, back, slows(back), 0]
        };
        for (tensor, bytes) in problem.trace.tensors.iter().map(|t| t.bytes).enumerate() {
            ways.ways.push([memory(bytes), 0, 0, 0, 0, 0, 0]);
            ways.kinds.push(None);
            if may.swap {
                ways.ways.push(swapped(bytes));
                ways.kinds.push(Some(Way::Copy));
            }
            for codec in 0..codecs {
                let cost = problem.codecs.costs.cost(codec, TensorId::from_index(tensor));
                let Some(cost) = cost else { continue };
                let [before, after] = [cost.compress, cost.decompress].map(|time| time.0.min(MOST));
                let lanes = if lane.is_some() { [before, after] } else { [0, 0] };
                let coded = [0, 0, taken(before), lanes[0], 0, taken(after), lanes[1]];
                let mut add = |way: Rows, kind| {
                    ways.ways.push(std::array::from_fn(|row| way[row] + coded[row]));
                    ways.kinds.push(Some(kind));
                };
                add([memory(cost.reserved), 0, 0, 0, 0, 0, 0], Way::Codec(codec));
                if may.swap {
                    add(swapped(cost.reserved), Way::CodecAndCopy(codec));
                }
            }
            ways.ends.push(ways.ways.len() as u32);
        }
        ways
    }

    /// The way that costs least at some prices, and what it costs.
    pub fn cheapest(&self, tensor: u32, prices: &Rows) -> (u64, &Rows) {
        let begin = if tensor == 0 { 0 } else { self.ends[tensor as usize - 1] };
        let ways = &self.ways[begin as usize..self.ends[tensor as usize] as usize];
        let cost = |way: &Rows| -> u128 {
            way.iter()
                .zip(prices)
                .map(|(taken, price)| u128::from(*taken) * u128::from(*price))
                .sum()
        };
        let costs = ways.iter().map(|way| (u64::try_from(cost(way)).unwrap_or(u64::MAX), way));
        costs.min_by_key(|(cost, _)| *cost).expect("a tensor may stay on the device")
    }

    /// What a way of a tensor is; none where it stays on the device.
    pub fn kind(&self, tensor: u32, way: &Rows) -> Option<Way> {
        let begin = if tensor == 0 { 0 } else { self.ends[tensor as usize - 1] as usize };
        let at = self.ways[begin..].iter().position(|other| other == way);
        self.kinds[begin + at.expect("one of the tensor's ways")]
    }
}
