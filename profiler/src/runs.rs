//! Plans that are run, iteration after iteration.

use planner::{Monitor, Progress};
use runtime::device::{Device, MemoryUse, RunFailure};
use runtime::network::Network;
use schema::{TensorId, Timeline};
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Result;

/// How often a plan is run.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Iterations before the first that counts.
    pub warmup: usize,
    /// Iterations that count, at least one.
    pub iterations: usize,
    /// Seed of dropout.
    pub seed: u64,
    /// Whether iterations are launched as CUDA graphs, from the second on.
    pub graph: bool,
    /// Whether what outlives an iteration is read after the last, to be held to that of another plan.
    pub fingerprint: bool,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The iterations that count, by ascending time; at least one.
    pub timelines: Vec<Timeline>,
    /// The most memory that was in use.
    pub memory: MemoryUse,
    /// The loss after the last iteration, where the network has one.
    pub loss: Option<f32>,
    /// Whose libraries computed, in words, where that may be one or another.
    pub computed_by: Option<String>,
    /// Of the bits of all that outlives an iteration, after the last: parameters, the optimizer's state,
    /// running statistics. Where it was asked for.
    pub fingerprint: Option<u64>,
}

impl Execution {
    /// The iteration in the middle, by time.
    pub fn middle(&self) -> &Timeline {
        &self.timelines[self.timelines.len() / 2]
    }
}

impl Runs {
    /// Runs the device's plan.
    ///
    /// # Errors
    /// If an iteration does not end.
    pub fn run(
        self,
        network: &Network,
        device: &mut dyn Device,
        monitor: &dyn Monitor,
    ) -> Result<Execution> {
        let mut timelines = Vec::new();
        let of = self.warmup.saturating_add(self.iterations);
        for iteration in 0..of {
            let progress = Progress { phase: "iterations", done: iteration as u64, of: of as u64 };
            if !monitor.proceed(progress) {
                return Err(RunFailure::Stopped.into());
            }
            if let Some(seed) = network.dropout_seed() {
                let mut cells = vec![0.0; network.tensor(seed).elements];
                network.reseed(self.seed, iteration as u64, &mut cells);
                device.write(seed, &cells)?;
            }
            let timeline = device.run()?;
            if iteration >= self.warmup {
                timelines.push(timeline);
            }
        }
        let loss = match network.loss() {
            Some(tensor) => {
                let mut loss = vec![0.0; network.tensor(tensor).elements];
                device.read(tensor, &mut loss)?;
                loss.first().copied()
            }
            None => None,
        };
        timelines.sort_by_key(|timeline| timeline.iteration);
        let fingerprint = self.fingerprint.then(|| fingerprint(network, device)).transpose()?;
        let (memory, computed_by) = (device.memory(), device.computed_by());
        Ok(Execution { timelines, memory, loss, computed_by, fingerprint })
    }
}

/// Cells that are hashed at once.
const PIECE: usize = 4096;

/// A number that plans have in common whose results are the same, bit for bit.
fn fingerprint(network: &Network, device: &mut dyn Device) -> Result<u64> {
    let mut hash = Xxh3Default::new();
    let mut cells = Vec::new();
    for (index, tensor) in network.tensors().iter().enumerate() {
        if tensor.is_constant() {
            cells.resize(tensor.elements, 0.0f32);
            device.read(TensorId::from_index(index), &mut cells)?;
            for cells in cells.chunks(PIECE) {
                let mut bytes = [0u8; 4 * PIECE];
                let places = bytes.as_chunks_mut::<4>().0;
                places.iter_mut().zip(cells).for_each(|(place, cell)| *place = cell.to_le_bytes());
                hash.update(&bytes[..4 * cells.len()]);
            }
        }
    }
    Ok(hash.digest())
}
