//! How much of each tensor is zero, counted by a kernel behind the op that makes it.

use codecs::kernels::Launch;
use schema::{Dtype, Plan, TensorId};

use super::commands::{At, Command, CommandError, Commands};
use super::launches::args;
use crate::device::script::{Script, Work};
use crate::network::Network;

const THREADS: u32 = 256;

/// Where the counts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zeros {
    /// Bytes into the memory in which kernels say how things went: a number of 8 bytes for each
    /// tensor, 0 before the iteration.
    pub at: u64,
    pub counted: Vec<(TensorId, u64)>,
}

impl Commands {
    /// Lets every op be followed by kernels of at most so many blocks of threads that count the
    /// zeros of the floats that it wrote, and says where.
    ///
    /// # Errors
    /// Where the plan could not be carried out on any device.
    pub fn count_zeros(
        &mut self,
        plan: &Plan,
        network: &Network,
        blocks: u32,
    ) -> Result<Zeros, CommandError> {
        let script = Script::new(plan, network)?;
        let at = self.control_bytes;
        let mut counted = Vec::new();
        for (issue, work) in self.issues.iter_mut().zip(&script.work) {
            let Work::Op(work) = work else { continue };
            for (tensor, place) in network.op(work.op).writes.iter().zip(&work.writes) {
                let about = network.tensor(*tensor);
                let is_float = about.dtype == Dtype::F32 || about.is_narrow();
                if !is_float || about.elements == 0 {
                    continue;
                }
                let elements = about.elements as u64;
                counted.push((*tensor, elements));
                let work = elements.div_ceil(u64::from(THREADS));
                issue.commands.push(Command::Launch(Launch {
                    program: "zeros",
                    kernel: "count_zeros".into(),
                    blocks: u32::try_from(work).unwrap_or(u32::MAX).clamp(1, blocks.max(1)),
                    threads: THREADS,
                    arguments: args![
                        At::Arena(place.begin as u64),
                        elements,
                        about.element_bytes(),
                        At::Control(at + 8 * tensor.index() as u64),
                    ],
                }));
            }
        }
        self.control_bytes = at + 8 * network.tensors().len() as u64;
        Ok(Zeros { at, counted })
    }
}

impl Zeros {
    pub(super) fn nothing(&self) -> Vec<u64> {
        vec![0; self.counted.iter().map(|(tensor, _)| tensor.index() + 1).max().unwrap_or(0)]
    }

    /// The share of zeros of each tensor that was counted, to four digits, of what kernels said.
    pub(super) fn shares(&self, counts: &[u64], tensors: usize) -> Vec<Option<f64>> {
        let mut shares = vec![None; tensors];
        for (tensor, elements) in &self.counted {
            let share = counts[tensor.index()] as f64 / *elements as f64;
            shares[tensor.index()] = Some((share * 1e4).round() / 1e4);
        }
        shares
    }
}
