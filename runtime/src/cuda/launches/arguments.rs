//! Operands, arguments, and lists of launches.

use codecs::kernels::Launch;
use schema::{Bytes, OpId};

use super::bf16::ALIGNMENT;
use super::halves::Parts;

/// Threads of a block.
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

    pub(super) fn address(&self) -> Argument<A> {
        Argument::Address(self.at, self.offset)
    }
}

/// Where the operands of an op lie.
#[derive(Debug, Clone, Copy)]
pub struct OpOperands<'a, A> {
    /// What it reads; none for an input that an output lies over.
    pub reads: &'a [Option<Cells<A>>],
    /// What it changes.
    pub updates: &'a [Cells<A>],
    /// What it writes.
    pub writes: &'a [Cells<A>],
    /// Its workspace.
    pub workspace: A,
    /// Memory for sums of parts, attention's scores, and floats where operands are stored in 16 bits: as
    /// much as launches say.
    pub scratch: A,
}

impl<A: Copy> OpOperands<'_, A> {
    /// An input that is always given.
    pub(super) fn read(&self, index: usize) -> Option<Argument<A>> {
        Some((*self.reads.get(index)?)?.address())
    }

    /// An input that an output may lie over.
    pub(super) fn read_or_write(&self, index: usize, output: usize) -> Option<Argument<A>> {
        match *self.reads.get(index)? {
            Some(cells) => Some(cells.address()),
            None => self.write(output),
        }
    }

    /// An input that the op has or has not.
    pub(super) fn optional_read(&self, index: usize) -> Argument<A> {
        self.read(index).unwrap_or(Argument::Nothing)
    }

    /// An output.
    pub(super) fn write(&self, index: usize) -> Option<Argument<A>> {
        Some(self.writes.get(index)?.address())
    }

    /// What the op changes.
    pub(super) fn update(&self, index: usize) -> Option<Argument<A>> {
        Some(self.updates.get(index)?.address())
    }

    /// So many floats into the workspace.
    pub(super) fn workspace(&self, floats: u64) -> Argument<A> {
        Argument::Address(self.workspace, 4 * floats)
    }
}

/// What becomes an argument.
pub(super) enum Operand<A> {
    Is(Argument<A>),
    Number(u64),
}

impl<A> From<Argument<A>> for Operand<A> {
    fn from(argument: Argument<A>) -> Self {
        Self::Is(argument)
    }
}

impl<A> From<u64> for Operand<A> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<A> From<usize> for Operand<A> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl<A> From<bool> for Operand<A> {
    fn from(flag: bool) -> Self {
        Self::Number(flag.into())
    }
}

impl<A> From<f32> for Operand<A> {
    fn from(value: f32) -> Self {
        Self::Number(value.to_bits().into())
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
    /// Scratch memory for the scores of fused attention, at most: as many heads at once as fit. Where
    /// none does, one head's are in the workspace.
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

/// The launches of an op so far.
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
    means: Means,
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

    /// Whether products are cuBLAS's.
    pub fn has_blas(&self) -> bool {
        self.means.blas
    }

    /// Whether cuDNN has what it can be told.
    pub fn has_dnn(&self) -> bool {
        self.means.dnn
    }

    /// Bytes of scratch memory for attention's scores, at most.
    pub fn scores(&self) -> Bytes {
        self.means.scores
    }

    /// So many floats of scratch memory, which no others of this op share.
    pub fn floats(&mut self, floats: usize) -> Argument<A> {
        let offset = self.scratch_bytes;
        self.scratch_bytes += (4 * floats as u64).next_multiple_of(ALIGNMENT);
        Argument::Address(self.scratch, offset)
    }

    /// A call of a library.
    pub fn library(&mut self, (program, kernel): (&'static str, &str), arguments: Vec<Operand<A>>) {
        self.push(program, kernel, 1, 32, arguments);
    }

    /// A kernel of which each thread takes elements.
    pub fn each(
        &mut self,
        (program, kernel): (&'static str, &str),
        elements: usize,
        arguments: Vec<Operand<A>>,
    ) {
        self.push(program, kernel, elements.div_ceil(THREADS as usize), THREADS, arguments);
    }

    /// A kernel of which each block of threads takes rows, or tiles.
    pub fn rows(
        &mut self,
        (program, kernel): (&'static str, &str),
        rows: usize,
        arguments: Vec<Operand<A>>,
    ) {
        self.push(program, kernel, rows, THREADS, arguments);
    }

    /// A kernel of one block of threads.
    pub fn one(&mut self, (program, kernel): (&'static str, &str), arguments: Vec<Operand<A>>) {
        self.push(program, kernel, 1, ONE_BLOCK, arguments);
    }

    fn push(
        &mut self,
        program: &'static str,
        kernel: &str,
        blocks: usize,
        threads: u32,
        arguments: Vec<Operand<A>>,
    ) {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, self.means.blocks.max(1));
        let argument = |operand| match operand {
            Operand::Is(argument) => argument,
            Operand::Number(number) => Argument::Number(number),
        };
        let arguments = arguments.into_iter().map(argument).collect();
        let program = if self.has_elements { super::bf16::program(program) } else { program };
        self.launches.push(Launch { program, kernel: kernel.into(), blocks, threads, arguments });
    }
}

/// A list of what becomes arguments.
macro_rules! operands {
    ($($operand:expr),* $(,)?) => { vec![$($crate::cuda::launches::Operand::from($operand)),*] };
}
pub(super) use operands;
