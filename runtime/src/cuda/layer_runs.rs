//! Layers without a plan: each op of a network on the device, held to what the host's layer makes of the
//! same operands.

use schema::{Bytes, Dtype, OpId, Role, TensorId};

use super::commands::CommandError;
use super::device::OpenError;
use super::driver::{Context, DeviceMemory, Kernels, Stream, Urgency};
use super::launches::{Argument, Cells, Means, OpOperands, launches};
use super::libraries::Opened;
use super::offsets::Offsets;
use super::{CudaError, blocks_of, programs};
use crate::network::bf16::{load, round, store};
use crate::network::{Network, Operands, Random};

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
    /// The largest difference of an element, as a share of the largest value on the host, without the one
    /// step that rounding to 16 bits may go either way. Infinite where one of them is no number, or where
    /// indices differ.
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
    ///
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

    /// Runs a network's iteration op by op, each from what the host made before; but gradients are drawn
    /// anew for each op. What comes back through a normalisation adds up to nothing, of which roundings
    /// would be all that is left. Returns what differs for each of `who`, in that order.
    ///
    /// # Errors
    ///
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
        let mut host = HostTensors::new(network);
        let mut differences = vec![Vec::new(); who.len()];
        for (index, op) in network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            let expected = host.run(id);
            let tensors: Vec<TensorId> = op.updates.iter().chain(&op.writes).copied().collect();
            for ((opened, means), differences) in opened.iter().zip(&mut differences) {
                let means = Means { dnn: means.dnn && !opened.not_dnn().contains(&id), ..*means };
                let found = self.run(&host, opened, id, means)?;
                let again = self.run(&host, opened, id, Means { blocks: FEW, ..means })?;
                for (index, tensor) in tensors.iter().enumerate() {
                    differences.push(LayerDifference {
                        op: id,
                        tensor: *tensor,
                        off: difference(network, *tensor, &expected[index], &found[index]),
                        same_bits: bits(&found[index]).eq(bits(&again[index])),
                    });
                }
            }
            tensors.iter().zip(expected).for_each(|(tensor, made)| host.keep(*tensor, made));
        }
        Ok(differences)
    }

    /// What an op changes and writes on the device.
    fn run(
        &self,
        host: &HostTensors,
        opened: &Opened,
        id: OpId,
        means: Means,
    ) -> Result<Vec<Vec<f32>>, OpenError> {
        let (network, op) = (host.network, host.network.op(id));
        let mut places = Offsets::default();
        let mut place = |tensor: &TensorId| {
            let about = network.tensor(*tensor);
            let at = places.next((about.elements * about.element_bytes()) as u64);
            Cells { narrow: about.is_narrow(), ..Cells::new(at, about.elements) }
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

/// The largest difference, as [`LayerDifference::off`] has it.
fn difference(network: &Network, tensor: TensorId, expected: &[f32], found: &[f32]) -> f64 {
    let about = network.tensor(tensor);
    if about.dtype == Dtype::I32 {
        return if bits(expected).eq(bits(found)) { 0.0 } else { f64::INFINITY };
    }
    let largest = expected.iter().fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs()));
    let off = |(expected, found): (&f32, &f32)| {
        if expected == found {
            return 0.0;
        }
        let step = if about.is_narrow() { expected.abs() / 128.0 } else { 0.0 };
        let apart = ((expected - found).abs() - step).max(0.0) / largest;
        // What is no number is as far as can be.
        if apart.is_nan() || found.is_nan() { f64::INFINITY } else { f64::from(apart) }
    };
    expected.iter().zip(found).map(off).fold(0.0, f64::max)
}

/// Every tensor of a network on the host, in a place of its own for ever.
struct HostTensors<'a> {
    network: &'a Network,
    tensors: Vec<Vec<f32>>,
}

impl<'a> HostTensors<'a> {
    fn new(network: &'a Network) -> Self {
        let made = network.tensors().iter().enumerate().map(|(index, tensor)| {
            let mut cells = vec![f32::NAN; tensor.elements];
            network.initialise(TensorId::from_index(index), 3, &mut cells);
            if tensor.role == Role::Parameter {
                let mut random = Random::new(index as u64);
                cells.fill_with(|| random.uniform(1.0));
            }
            cells
        });
        Self { network, tensors: made.collect() }
    }

    /// A tensor as it is stored.
    fn stored(&self, tensor: TensorId) -> Vec<u8> {
        let about = self.network.tensor(tensor);
        let mut bytes = vec![0; about.elements * about.element_bytes()];
        store(self.network, tensor, &self.tensors[tensor.index()], &mut bytes);
        bytes
    }

    /// Takes over what an op made of a tensor, or numbers of its own where that is a gradient.
    fn keep(&mut self, tensor: TensorId, mut made: Vec<f32>) {
        let about = self.network.tensor(tensor);
        if about.role == Role::Gradient {
            let mut random = Random::new(tensor.index() as u64);
            made.fill_with(|| random.uniform(1.0));
            if about.is_narrow() {
                round(&mut made);
            }
        }
        self.tensors[tensor.index()] = made;
    }

    /// What an op changes and writes on the host. What is wrong about labels is left as it is.
    fn run(&self, id: OpId) -> Vec<Vec<f32>> {
        let op = self.network.op(id);
        let of = |tensors: &[TensorId]| -> Vec<Vec<f32>> {
            tensors.iter().map(|tensor| self.tensors[tensor.index()].clone()).collect()
        };
        let (reads, mut updates, mut writes) = (of(&op.reads), of(&op.updates), of(&op.writes));
        let operands = Operands {
            reads: reads.iter().map(|read| Some(&read[..])).collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut vec![f32::NAN; op.step.workspace_floats()],
        };
        // Its operands are those that the network says, and its labels are drawn from its classes.
        let ran = self.network.run_op(id, operands);
        debug_assert!(ran.is_ok(), "{ran:?}");
        updates.into_iter().chain(writes).collect()
    }
}
