//! Codecs' kernels without a plan: timed, and held to the bytes of the processor's codecs.

use codecs::kernels::{self, Argument, Launches};
use codecs::{Codec, CodecId, TensorView};
use schema::{Bytes, Nanos};

use super::driver::{Context, DeviceMemory, Event, Kernels, Prepared, Stream, Urgency};
use super::head_start::HeadStart;
use super::{CudaError, blocks_of};

/// Codecs' kernels on a device.
pub struct CudaCodecs {
    pub(super) kernels: Kernels,
    pub(super) stream: Stream,
    events: [Event; 2],
    head_start: HeadStart,
    blocks: u32,
    pub(super) context: Context,
}

/// How long a codec's kernels took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecTimes {
    /// Bytes of the payload.
    pub length: usize,
    /// Of each run, how long compressing took; none for a codec that compresses on the host alone.
    pub compress: Option<Vec<Nanos>>,
    /// Of each run, how long decompressing took.
    pub decompress: Vec<Nanos>,
}

/// Why kernels were not timed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CodecRunError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Codec(#[from] codecs::Error),
    /// A kernel makes other bytes than the processor, which is a mistake in it.
    #[error("the kernels of {codec} {what} to other bytes than the processor, from byte {at} on")]
    OtherBytes { codec: CodecId, what: &'static str, at: usize },
    /// A kernel says that it cannot take what the processor takes, which is a mistake in it.
    #[error("the kernels of {codec} do not {what} what the processor does: block {block}")]
    Refused { codec: CodecId, what: &'static str, block: u64 },
}

/// Compressing or decompressing by kernels, and what must come of it.
struct CodecRun<'a> {
    codec: CodecId,
    what: &'static str,
    launches: &'a Launches,
    source: &'a [u8],
    expected: &'a [u8],
    room: usize,
    /// The payload's length before; anything for compressing.
    length: u64,
}

/// What targets hold before.
pub(super) const POISON: u8 = 0xc3;

impl CudaCodecs {
    /// The kernels of some codecs, which may use such a share of the multiprocessors (in percent),
    /// on the device of this number.
    ///
    /// # Errors
    /// If there is no such device, or kernels do not compile.
    pub fn open(ordinal: usize, codecs: &[CodecId], percent: u8) -> Result<Self, CudaError> {
        let context = Context::open(ordinal)?;
        let is_used = |name: &str| codecs.iter().any(|codec| codec.name() == name);
        let programs = kernels::programs().iter().copied();
        let used: Vec<_> = programs.filter(|program| is_used(program.name())).collect();
        Ok(Self {
            kernels: context.kernels(&used)?,
            stream: context.stream(Urgency::High)?,
            events: [context.event()?, context.event()?],
            head_start: HeadStart::new(&context)?,
            blocks: blocks_of(context.multiprocessors, percent),
            context,
        })
    }

    /// The device's name, as its driver has it.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Blocks of threads that kernels may use.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Times a codec on a tensor: runs that count, after one that does not. What the kernels make
    /// is compared with what the processor makes, in the first run and in the last.
    ///
    /// # Errors
    /// [`CodecRunError`]: also where a byte differs.
    pub fn time(
        &mut self,
        codec: &dyn Codec,
        tensor: TensorView<'_>,
        runs: u32,
    ) -> Result<CodecTimes, CodecRunError> {
        let (id, layout) = (codec.id(), tensor.layout());
        let decompress = kernels::decompress(id, layout, self.blocks)?;
        let compress = match kernels::compress(id, layout, self.blocks) {
            Ok(launches) => Some(launches),
            Err(codecs::Error::NoKernel { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let room = codec.worst_case(layout);
        let mut payload = vec![0; room];
        let length = codec.compress(tensor, &mut payload)?;
        payload.truncate(length);
        let mut restored = vec![0; layout.bytes()];
        codec.decompress(&payload, layout, &mut restored)?;
        let compress = compress.map(|launches| {
            let codec_run = CodecRun {
                codec: id,
                what: "compress",
                launches: &launches,
                source: tensor.bytes(),
                expected: &payload,
                room,
                length: u64::MAX,
            };
            self.run(&codec_run, runs)
        });
        let codec_run = CodecRun {
            codec: id,
            what: "decompress",
            launches: &decompress,
            source: &payload,
            expected: &restored,
            room: restored.len(),
            length: length as u64,
        };
        let compress = compress.transpose()?;
        Ok(CodecTimes { length, compress, decompress: self.run(&codec_run, runs)? })
    }

    /// How long copies of so many bytes within the device's memory take, each of which reads and
    /// writes them: what kernels are compared with.
    ///
    /// # Errors
    /// If the driver fails, or there is too little memory.
    pub fn time_copies(&mut self, bytes: Bytes, runs: u32) -> Result<Vec<Nanos>, CudaError> {
        let memory = || DeviceMemory::new(&self.context, "copies", bytes);
        let (to, from) = (memory()?, memory()?);
        let mut times = Vec::new();
        for run in 0..=runs {
            let copied = self.timed(|stream| stream.copy_within((&to, 0), (&from, 0), bytes.0))?;
            times.extend((run > 0).then_some(copied));
        }
        Ok(times)
    }

    fn run(&self, way: &CodecRun<'_>, runs: u32) -> Result<Vec<Nanos>, CodecRunError> {
        let memory = |bytes: usize| DeviceMemory::new(&self.context, "codecs", Bytes(bytes as u64));
        let (mut source, target) = (memory(way.source.len())?, memory(way.room)?);
        let mut control = memory(16)?;
        let scratch = memory(way.launches.scratch_bytes as usize)?;
        source.write(0, way.source)?;
        let value = |argument: &Argument| match *argument {
            Argument::Source => source.address(0, way.source.len() as u64),
            Argument::Target => target.address(0, way.room as u64),
            Argument::Length => control.address(0, 8),
            Argument::Status => control.address(8, 8),
            Argument::Scratch(at) => scratch.address(at, 0),
            Argument::Number(number) => number,
        };
        let launches = way.launches.launches.iter();
        let launches: Vec<Prepared> =
            launches.map(|launch| self.kernels.prepare(launch, value)).collect::<Result<_, _>>()?;
        let mut times = Vec::new();
        for run in 0..=runs {
            self.stream.fill((&target, 0), POISON, way.room as u64)?;
            self.stream.synchronize()?;
            control.write(0, &[way.length, u64::MAX])?;
            let took =
                self.timed(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
            times.extend((run > 0).then_some(took));
            if run == 0 || run == runs {
                compare(way, &target, &control)?;
            }
        }
        Ok(times)
    }

    /// How long the stream takes for what it is given, with nothing of it in the device's cache.
    pub(super) fn timed(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), CudaError>,
    ) -> Result<Nanos, CudaError> {
        let [begin, end] = &self.events;
        self.head_start.give([&self.stream])?;
        self.stream.record(begin)?;
        let given = work(&self.stream);
        let recorded = self.stream.record(end);
        // Whatever was given ends before memory is given back.
        self.stream.synchronize()?;
        given?;
        recorded?;
        Ok(Nanos(end.since(begin)?))
    }
}

/// Holds what a run left against what must be there.
fn compare(
    way: &CodecRun<'_>,
    target: &DeviceMemory,
    control: &DeviceMemory,
) -> Result<(), CodecRunError> {
    let CodecRun { codec, what, expected, .. } = *way;
    let mut said = [0u64; 2];
    control.read(0, &mut said)?;
    let [length, status] = said;
    if status != u64::MAX {
        return Err(CodecRunError::Refused { codec, what, block: status });
    }
    let other = |at: usize| CodecRunError::OtherBytes { codec, what, at };
    if what == "compress" && length != expected.len() as u64 {
        return Err(other(expected.len().min(length as usize)));
    }
    let mut found = vec![0u8; expected.len()];
    target.read(0, &mut found)?;
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(at) => Err(other(at)),
        None => Ok(()),
    }
}
