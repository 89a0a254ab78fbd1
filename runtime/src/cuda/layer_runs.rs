//! Layers without a plan: each op of a network on the device, held to what the host's layer makes
//! of the same operands.

use schema::{Bytes, OpId, Role, TensorId};

use super::commands::CommandError;
use super::device::OpenError;
use super::driver::{Context, DeviceMemory, Kernels, Stream, Urgency};
use super::launches::{Argument, Cells, Means, OpOperands, launches};
use super::libraries::Opened;
use super::offsets::Offsets;
use super::{CudaError, blocks_of, programs};
use crate::device::HostTensors;
use crate::network::bf16::{load, round};
use crate::network::{Network, Random, RunError};

/// Layers on a device.
pub struct CudaLayers {
    kernels: Kernels,
    stream: Stream,
    blocks: u32,
    context: Context,
}

/// Whose libraries may compute where they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MayCompute {
    /// Products by cuBLAS.
    pub blas: bool,
    /// Convolutions, means and softmax by cuDNN.
    pub dnn: bool,
}

/// A tensor that an op wrote or changed, on the device and on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerDifference {
    /// The op.
    pub op: OpId,
    /// The tensor.
    pub tensor: TensorId,
    /// How far they are apart, as [`HostTensors::difference`] has it.
    pub off: f64,
    /// Whether a second run, with fewer blocks of threads, made the same bits.
    pub same_bits: bool,
}

/// Blocks of threads of the second run.
const FEW: u32 = 3;
/// What outputs hold before, which is no number.
const POISON: u8 = 0xff;

impl CudaLayers {
    /// All layers' kernels on the device of this number.
    ///
    /// # Errors
    /// If there is no such device, or kernels do not compile.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        let context = Context::open(ordinal)?;
        Ok(Self {
            kernels: context.kernels(&programs())?,
            stream: context.stream(Urgency::Low)?,
            blocks: blocks_of(context.multiprocessors, 100),
            context,
        })
    }

    /// Runs a network's iteration op by op, each from what the host made before; but gradients are
    /// drawn anew for each op. What comes back through a normalisation adds up to nothing, of which
    /// roundings would be all that is left. Returns what differs for each of `who`, in that order.
    ///
    /// # Errors
    /// If the driver or a library fails, or an op has no kernel.
    pub fn compare(
        &self,
        network: &Network,
        who: &[MayCompute],
    ) -> Result<Vec<Vec<LayerDifference>>, OpenError> {
        let open = |who: &MayCompute| {
            let wanted = Means { blas: who.blas, dnn: who.dnn, ..Means::kernels(self.blocks) };
            Opened::new(&self.context, &self.stream, network, wanted)
        };
        let opened = who.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut host = HostTensors::new(network, 3).with_random_parameters();
        let mut differences = vec![Vec::new(); who.len()];
        for (index, op) in network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            let failed = |why: RunError| CudaError::Call {
                what: "running an op on the host",
                why: why.to_string(),
            };
            let expected = host.run(id).map_err(failed)?;
            let tensors: Vec<TensorId> = op.updates.iter().chain(&op.writes).copied().collect();
            for ((opened, means), differences) in opened.iter().zip(&mut differences) {
                let means = Means { dnn: means.dnn && !opened.not_dnn().contains(&id), ..*means };
                let found = self.run((network, &host), opened, id, means)?;
                let again =
                    self.run((network, &host), opened, id, Means { blocks: FEW, ..means })?;
                for (index, tensor) in tensors.iter().enumerate() {
                    differences.push(LayerDifference {
                        op: id,
                        tensor: *tensor,
                        off: host.difference(*tensor, &expected[index], &found[index]),
                        same_bits: bits(&found[index]).eq(bits(&again[index])),
                    });
                }
            }
            for (tensor, mut made) in tensors.into_iter().zip(expected) {
                let about = network.tensor(tensor);
                if about.role == Role::Gradient {
                    let mut random = Random::new(tensor.index() as u64);
                    made.fill_with(|| random.uniform(1.0));
                    if about.is_narrow() {
                        round(&mut made);
                    }
                }
                host.tensors[tensor.index()] = made;
            }
        }
        Ok(differences)
    }

    /// What an op changes and writes on the device.
    fn run(
        &self,
        (network, host): (&Network, &HostTensors<'_>),
        opened: &Opened,
        id: OpId,
        means: Means,
    ) -> Result<Vec<Vec<f32>>, OpenError> {
        let op = network.op(id);
        let mut places = Offsets::default();
        let mut place = |tensor: &TensorId| {
            let about = network.tensor(*tensor);
            let at = places.next((about.elements * about.element_bytes()) as u64);
            Cells::of(network, *tensor, at)
        };
        let reads: Vec<_> = op.reads.iter().map(|tensor| Some(place(tensor))).collect();
        let updates: Vec<_> = op.updates.iter().map(&mut place).collect();
        let writes: Vec<_> = op.writes.iter().map(&mut place).collect();
        let workspace = places.next(4 * op.step.workspace_floats() as u64);
        let status = places.next(8);
        let scratch = places.end;
        let operands =
            OpOperands { reads: &reads, updates: &updates, writes: &writes, workspace, scratch };
        let no_kernel = |source| CommandError::Op { op: op.name.clone(), source };
        let launched = launches(&op.step, id, &operands, means).map_err(no_kernel)?;
        let bytes = Bytes(scratch + launched.scratch_bytes);
        let mut memory = DeviceMemory::new(&self.context, "layers", bytes)?;
        self.stream.fill((&memory, 0), POISON, bytes.0)?;
        self.stream.synchronize()?;
        let before = op.reads.iter().zip(reads.iter().flatten());
        for (tensor, cells) in before.chain(op.updates.iter().zip(&updates)) {
            memory.write(cells.at, &host.stored(*tensor))?;
        }
        for launch in &launched.launches {
            let value = |argument: &Argument<u64>| match *argument {
                Argument::Address(at, more) => memory.address(at + more, 0),
                Argument::Nothing => 0,
                Argument::Status => memory.address(status, 8),
                Argument::Number(number) => number,
            };
            let arguments: Vec<u64> = launch.arguments.iter().map(value).collect();
            let named = (launch.program, &launch.kernel[..]);
            if !opened.carry_out(named, &arguments)? {
                self.stream.launch(&self.kernels.prepare(launch, value)?)?;
            }
        }
        self.stream.synchronize()?;
        let tensors = op.updates.iter().chain(&op.writes).zip(updates.iter().chain(&writes));
        let read = |(tensor, cells): (&TensorId, &Cells<u64>)| {
            let about = network.tensor(*tensor);
            let mut bytes = vec![0u8; about.elements * about.element_bytes()];
            memory.read(cells.at, &mut bytes)?;
            let mut found = vec![0.0; about.elements];
            load(network, *tensor, &bytes, &mut found);
            Ok(found)
        };
        tensors.map(read).collect()
    }
}

fn bits(cells: &[f32]) -> impl Iterator<Item = u32> {
    cells.iter().map(|cell| cell.to_bits())
}
