//! What to launch.

/// An argument of a kernel: 8 bytes, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Address of what is read: the tensor that is compressed, or the payload.
    Source,
    /// Address of what is written: the payload, with room for the codec's worst case, or the
    /// tensor.
    Target,
    /// Address of the payload's length in bytes, a u64: written by compressing, read by
    /// decompressing.
    Length,
    /// Address of a u64 that must be all ones before: then it is the number of what cannot be
    /// compressed (an element that is not finite) or decompressed (a block or row that is damaged),
    /// the least one if there are several. Left alone where all is well.
    Status,
    /// Address so many bytes into scratch memory.
    Scratch(u64),
    /// A number; a floating-point one by its bits.
    Number(u64),
}

/// One launch of a kernel. Its blocks of threads are a whole number of warps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Launch<A = Argument> {
    pub program: &'static str,
    pub kernel: String,
    /// Blocks of threads, above 0: with more there would be nothing to do for some.
    pub blocks: u32,
    pub threads: u32,
    pub arguments: Vec<A>,
}

impl<A> Launch<A> {
    /// The same launch with other arguments.
    pub fn map<B>(&self, argument: impl FnMut(&A) -> B) -> Launch<B> {
        let Self { program, kernel, blocks, threads, arguments } = self;
        let arguments = arguments.iter().map(argument).collect();
        Launch { program, kernel: kernel.clone(), blocks: *blocks, threads: *threads, arguments }
    }
}

/// Launches one after the other, each of which sees what those before wrote. Addresses are
/// multiples of 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launches<A = Argument> {
    /// In order.
    pub launches: Vec<Launch<A>>,
    /// Bytes of scratch memory that they share; what it holds before does not matter.
    pub scratch_bytes: u64,
}
