//! Running iterations and timing their ops.

use std::time::Instant;

use schema::{Bytes, Dtype, Nanos, OpId, Origin, Provenance, TensorId, Trace};

use super::processor::processor_name;
use super::store::Store;
use crate::memory::NoRoom;
use crate::network::{Measured, Network, RunError};

/// How a network is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profiler {
    /// Iterations that run before the first that counts.
    pub warmup: usize,
    /// Iterations that count; an op's duration is the median over them.
    pub repeats: usize,
    /// Seed of the weights, images and labels.
    pub seed: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Medians of the ops' durations, and the sparsity of what ops wrote in the last iteration.
    pub measured: Measured,
    /// Time of all ops of each iteration that counts.
    pub iterations: Vec<Nanos>,
    /// The loss of each iteration, those of the warm-up too.
    pub losses: Vec<f32>,
    /// The most memory that was in use at once.
    pub peak: Bytes,
    profiler: Profiler,
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No iteration to measure.
    #[error("nothing is measured in 0 repeats: ask for at least 1")]
    NoRepeats,
    /// The machine has no memory for it.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// An op did not run.
    #[error("the network did not run")]
    Run(#[from] RunError),
}

impl Profiler {
    /// Trains `network` on one random batch, keeping everything in memory, on the calling thread.
    /// `progress` is called after every iteration.
    pub fn measure(
        self,
        network: &Network,
        mut progress: impl FnMut(),
    ) -> Result<Profile, ProfileError> {
        if self.repeats == 0 {
            return Err(ProfileError::NoRepeats);
        }
        let mut store = Store::new(network, self.seed)?;
        let mut durations = vec![Vec::new(); network.ops().len()];
        let mut sparsity = vec![None; network.tensors().len()];
        let mut losses = Vec::new();
        let of = self.warmup.saturating_add(self.repeats);
        for iteration in 0..of {
            let is_last = iteration + 1 == of;
            for (index, op) in network.ops().iter().enumerate() {
                let mut loan = store.lend(op);
                let operands = store.operands(op, &mut loan);
                let start = Instant::now();
                network.run_op(OpId::from_index(index), operands)?;
                let elapsed = start.elapsed().as_nanos();
                store.put_back(op, loan);
                if iteration >= self.warmup {
                    durations[index].push(Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX)));
                }
                for tensor in op.writes.iter().filter(|_| is_last) {
                    sparsity[tensor.index()] = zeros_of(network, &store, *tensor);
                }
                store.free(op);
            }
            losses.extend(network.loss().and_then(|loss| Some(store.get(loss)?[0])));
            progress();
        }
        let iterations =
            (0..self.repeats).map(|n| durations.iter().map(|op| op[n]).sum()).collect();
        let durations = durations.into_iter().map(median).collect();
        let measured = Measured { durations, sparsity };
        Ok(Profile { measured, iterations, losses, peak: store.peak(), profiler: self })
    }
}

impl Profile {
    /// The trace of `network`, which was measured. `source` is the command, `date` the day as
    /// `YYYY-MM-DD`.
    pub fn trace(&self, network: &Network, source: String, date: Option<String>) -> Trace {
        let Profiler { warmup, repeats, seed } = self.profiler;
        let provenance = Provenance {
            settings: Default::default(),
            origin: Origin::Measured,
            device: format!("{}, 1 thread", processor_name()),
            framework: Some("tidegate runtime (ndarray)".into()),
            source,
            date,
            notes: vec![
                format!(
                    "Durations are medians over {repeats} iterations after {warmup} of warm-up, \
                     on one random batch (seed {seed})."
                ),
                "Sparsity is that of the last iteration; zeros are counted.".into(),
                "Workspace is the columns of one image (im2col); the blocks that the matrix \
                 product packs, at most about a megabyte, are not in it."
                    .into(),
                "FLOPs and bytes moved follow from the shapes: every operand once, what an update \
                 changes twice."
                    .into(),
            ],
        };
        network.trace(&self.measured, provenance)
    }
}

/// Share of zeros of a tensor of floats, to four digits.
fn zeros_of(network: &Network, store: &Store, tensor: TensorId) -> Option<f64> {
    if !matches!(network.tensor(tensor).dtype, Dtype::F32 | Dtype::Bf16) {
        return None;
    }
    Some((share_of_zeros(store.get(tensor)?) * 1e4).round() / 1e4)
}

/// The share of values that are zero, of either sign; 0 where there is no value.
pub fn share_of_zeros(data: &[f32]) -> f64 {
    let zeros = data.iter().filter(|value| **value == 0.0).count();
    zeros as f64 / data.len().max(1) as f64
}

/// The middle duration, or the mean of the two middle ones.
fn median(mut durations: Vec<Nanos>) -> Nanos {
    durations.sort_unstable();
    let count = durations.len();
    let middle = durations[(count - 1) / 2..=count / 2].iter();
    let (sum, terms) = middle.fold((0, 0), |(sum, terms), nanos| (sum + nanos.0, terms + 1));
    Nanos(sum / terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::ResNet;

    #[test]
    fn the_median_is_in_the_middle() {
        let median = |durations: &[u64]| median(durations.iter().copied().map(Nanos).collect());
        assert_eq!(median(&[7]), Nanos(7));
        assert_eq!(median(&[9, 1, 5]), Nanos(5));
        assert_eq!(median(&[9, 1, 5, 6]), Nanos(5));
    }

    /// Walks over a trace as it says that memory is taken and given back.
    fn peak_of(trace: &Trace) -> Bytes {
        let bytes = |ids: &[TensorId]| -> Bytes {
            ids.iter().map(|id| trace.tensors[id.index()].bytes).sum()
        };
        let (mut live, mut peak) = (trace.constant_bytes(), Bytes::ZERO);
        for op in &trace.ops {
            let outputs: Vec<_> = op.in_place.iter().map(|pair| pair.output).collect();
            live += bytes(&op.writes) - bytes(&outputs);
            peak = peak.max(live + op.workspace);
            let inputs: Vec<_> = op.in_place.iter().map(|pair| pair.input).collect();
            live -= bytes(&op.frees) - bytes(&inputs);
        }
        peak
    }

    #[test]
    fn the_memory_that_was_used_is_what_the_trace_says() {
        let small = ResNet { batch: 2, image: 40, width: 4, blocks: 2, classes: 5 };
        let network = small.build("small").unwrap();
        let measure =
            || Profiler { warmup: 1, repeats: 2, seed: 3 }.measure(&network, || {}).unwrap();
        let profile = measure();
        let trace = profile.trace(&network, "test".into(), Some("2026-01-01".into()));
        assert_eq!(schema::Document::check(&trace), Ok(()));
        assert_eq!(profile.peak, peak_of(&trace));
        assert_eq!(trace.ops.len(), network.ops().len());

        let again = measure();
        assert_eq!(again.measured.sparsity, profile.measured.sparsity);
        assert_eq!(again.losses, profile.losses);
        assert_eq!(profile.losses.len(), 3);
        assert!(profile.losses[2] < profile.losses[0], "{:?}", profile.losses);

        let sparsity = |name: &str| trace.tensors.iter().find(|t| t.name == name).unwrap().sparsity;
        assert!(sparsity("layer1.0.relu1").is_some_and(|share| share > 0.2 && share < 0.8));
        assert_eq!(sparsity("layer1.0.bn1"), Some(0.0));
        assert_eq!(sparsity("maxpool.positions"), None);
    }

    #[test]
    fn nothing_is_measured_in_no_repeats() {
        let tiny = ResNet { batch: 1, image: 8, width: 2, blocks: 1, classes: 2 };
        let network = tiny.build("tiny").unwrap();
        let profiler = Profiler { warmup: 1, repeats: 0, seed: 0 };
        assert_eq!(profiler.measure(&network, || {}), Err(ProfileError::NoRepeats));
    }
}
