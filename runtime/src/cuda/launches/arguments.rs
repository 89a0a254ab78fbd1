//! Operands, arguments, and lists of launches.

use codecs::kernels::Launch;
use schema::{Bytes, OpId, TensorId};

use crate::network::Network;

/// Scratch memory begins at a multiple of this for each operand.
pub(super) const ALIGNMENT: u64 = 256;
const THREADS: u32 = 256;
/// Threads of the one block that sums up a loss.
const ONE_BLOCK: u32 = 1024;

/// An argument of a kernel: 8 bytes, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument<A> {
    /// So many bytes behind an address.
    Address(A, u64),
    /// The address 0: there is no such operand.
    Nothing,
    /// The address of the status, a u64.
    Status,
    /// A number; a floating-point one by its bits.
    Number(u64),
}

impl<A> Argument<A> {
    pub(super) fn behind(self, bytes: u64) -> Self {
        match self {
            Self::Address(at, more) => Self::Address(at, more + bytes),
            other => other,
        }
    }
}

impl Argument<u64> {
    /// As a device takes it, whose status is at that address.
    pub(in crate::cuda) fn value(&self, status: u64) -> u64 {
        match *self {
            Self::Address(at, more) => at + more,
            Self::Nothing => 0,
            Self::Status => status,
            Self::Number(number) => number,
        }
    }
}

impl<A> From<u64> for Argument<A> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<A> From<usize> for Argument<A> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl<A> From<bool> for Argument<A> {
    fn from(flag: bool) -> Self {
        Self::Number(flag.into())
    }
}

impl<A> From<f32> for Argument<A> {
    fn from(value: f32) -> Self {
        Self::Number(value.to_bits().into())
    }
}

/// A list of arguments, of numbers and addresses.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { vec![$($crate::cuda::launches::Argument::from($argument)),*] };
}
pub(in crate::cuda) use args;

/// Where an operand lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells<A> {
    /// Its address,
    pub at: A,
    /// and so many bytes behind it.
    pub offset: u64,
    /// How many floats or indices it has.
    pub elements: usize,
    /// Whether they are floats stored in 16 bits.
    pub narrow: bool,
}

impl<A: Copy> Cells<A> {
    /// Floats or indices of 4 bytes.
    pub fn new(at: A, elements: usize) -> Self {
        Self { at, offset: 0, elements, narrow: false }
    }

    /// Those of a network's tensor.
    pub fn of(network: &Network, tensor: TensorId, at: A) -> Self {
        let about = network.tensor(tensor);
        Self { narrow: about.is_narrow(), ..Self::new(at, about.elements) }
    }

    pub(super) fn address(&self) -> Argument<A> {
        Argument::Address(self.at, self.offset)
    }
}

/// Where the operands of an op lie.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct OpOperands<'a, A> {
    /// What it reads; none for an input that an output lies over.
    pub reads: &'a [Option<Cells<A>>],
    pub updates: &'a [Cells<A>],
    pub writes: &'a [Cells<A>],
    pub workspace: A,
    /// Memory for sums of parts, attention's scores, and floats where operands are stored in 16
    /// bits: as much as launches say.
    pub scratch: A,
}

impl<A: Copy> OpOperands<'_, A> {
    /// An input; where the first output lies over it, that.
    pub(super) fn read(&self, index: usize) -> Option<Argument<A>> {
        match self.reads.get(index)? {
            Some(cells) => Some(cells.address()),
            None => self.write(0),
        }
    }

    pub(super) fn optional_read(&self, index: usize) -> Argument<A> {
        self.read(index).unwrap_or(Argument::Nothing)
    }

    pub(super) fn write(&self, index: usize) -> Option<Argument<A>> {
        Some(self.writes.get(index)?.address())
    }

    pub(super) fn update(&self, index: usize) -> Option<Argument<A>> {
        Some(self.updates.get(index)?.address())
    }

    /// The first inputs, operands that change, and outputs: so many of each.
    pub(super) fn first(&self, [reads, updates, writes]: [usize; 3]) -> Option<Vec<Argument<A>>> {
        let reads = (0..reads).map(|index| self.read(index));
        let updates = (0..updates).map(|index| self.update(index));
        reads.chain(updates).chain((0..writes).map(|index| self.write(index))).collect()
    }
}

/// What launches may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// Blocks of threads of a launch, at most.
    pub blocks: u32,
    /// Whether products are cuBLAS's, where it can be told them: launches of [`BLAS`](super::BLAS).
    pub blas: bool,
    /// Which operands of 16 bits cuBLAS takes as they are stored: launches of
    /// [`BLAS_HALVES`](super::BLAS_HALVES).
    pub halves: Halves,
    /// Whether what cuDNN can be told is cuDNN's: launches of [`DNN`](super::DNN). It comes before
    /// cuBLAS.
    pub dnn: bool,
    /// Scratch memory for the scores of fused attention, at most: as many heads at once as fit.
    /// Where none does, one head's are in the workspace.
    pub scores: Bytes,
}

/// What a device's units for products of 16 bits are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halves {
    /// Nothing: what is stored in 16 bits is widened.
    None,
    /// Products of two operands that are stored so.
    Stored,
    /// Those, and such an operand with weights of 32 bits, in three products.
    WithWeights,
}

impl Means {
    /// Our own kernels alone, in at most so many blocks of threads.
    pub const fn kernels(blocks: u32) -> Self {
        let scores = Bytes(256 << 20);
        Self { blocks, blas: false, halves: Halves::None, dnn: false, scores }
    }
}

/// The right operand of a product, one matrix of 16 bits behind the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// How many add up to it.
    pub count: u64,
    /// Bytes from one to the next.
    pub apart: u64,
}

pub(super) struct Writer<A> {
    pub launches: Vec<Launch<Argument<A>>>,
    /// The op's number, for the status.
    pub op: u64,
    /// Bytes of scratch memory that they use.
    pub scratch_bytes: u64,
    /// Whether operands are elements of 16 bits where kernels name them so.
    pub has_elements: bool,
    /// Where operands of products are in 16 bits: what the right one is.
    pub halves: Option<Parts>,
    scratch: A,
    pub means: Means,
}

impl<A: Copy> Writer<A> {
    /// No launches yet, with scratch memory from an address on.
    pub fn new(means: Means, op: OpId, scratch: A) -> Self {
        Self {
            launches: Vec::new(),
            op: u64::from(op.0),
            scratch_bytes: 0,
            has_elements: false,
            halves: None,
            scratch,
            means,
        }
    }

    /// So many floats of scratch memory, which no others of this op share.
    pub fn floats(&mut self, floats: usize) -> Argument<A> {
        let offset = self.scratch_bytes;
        self.scratch_bytes += (4 * floats as u64).next_multiple_of(ALIGNMENT);
        Argument::Address(self.scratch, offset)
    }

    pub fn library(
        &mut self,
        (program, kernel): (&'static str, &str),
        arguments: Vec<Argument<A>>,
    ) {
        self.push(program, kernel, 1, 32, arguments);
    }

    /// A kernel, as `program/kernel`, of which each thread takes elements.
    pub fn each(
        &mut self,
        kernel: &'static str,
        elements: usize,
        numbers: Vec<Argument<A>>,
        operands: Vec<Argument<A>>,
    ) {
        let blocks = elements.div_ceil(THREADS as usize);
        self.kernel(kernel, blocks, THREADS, numbers, operands);
    }

    /// A kernel of which each block of threads takes rows, or tiles.
    pub fn rows(
        &mut self,
        kernel: &'static str,
        rows: usize,
        numbers: Vec<Argument<A>>,
        operands: Vec<Argument<A>>,
    ) {
        self.kernel(kernel, rows, THREADS, numbers, operands);
    }

    /// A kernel of one block of threads.
    pub fn one(&mut self, kernel: &'static str, arguments: Vec<Argument<A>>) {
        self.kernel(kernel, 1, ONE_BLOCK, arguments, Vec::new());
    }

    fn kernel(
        &mut self,
        kernel: &'static str,
        blocks: usize,
        threads: u32,
        mut arguments: Vec<Argument<A>>,
        operands: Vec<Argument<A>>,
    ) {
        let (program, kernel) = kernel.split_once('/').unwrap_or((kernel, ""));
        arguments.extend(operands);
        self.push(program, kernel, blocks, threads, arguments);
    }

    fn push(
        &mut self,
        program: &'static str,
        kernel: &str,
        blocks: usize,
        threads: u32,
        arguments: Vec<Argument<A>>,
    ) {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, self.means.blocks.max(1));
        let program = match program {
            "elementwise" if self.has_elements => "elementwise_bf16",
            "normalise" if self.has_elements => "normalise_bf16",
            "pool" if self.has_elements => "pool_bf16",
            "rows" if self.has_elements => "rows_bf16",
            "movement" if self.has_elements => "movement_bf16",
            other => other,
        };
        self.launches.push(Launch { program, kernel: kernel.into(), blocks, threads, arguments });
    }
}
