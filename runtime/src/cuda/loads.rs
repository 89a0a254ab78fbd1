//! What keeps parts of a CUDA device busy, to be measured beside each other.

use codecs::kernels::{self, Argument as CodecArgument, Launch};
use codecs::synthetic::Recipe;
use codecs::{CodecId, Layout};
use schema::{Bytes, Direction, Dtype, Nanos, OpId};

use super::codec_runs::CodecRunError;
use super::driver::{Blas, Context, DeviceMemory, Event, Pinned, Prepared, Stream, Urgency};
use super::head_start::HeadStart;
use super::launches::{Argument, BLAS, Cells, Means, OpOperands, launches};
use super::offsets::Offsets;
use super::{CudaError, CudaOptions, Library, blocks_of, programs};
use crate::device::Load;
use crate::layers::{Activation, Linear};
use crate::network::Step;

/// What a tensor of the loads has at most, and at most of what of the device's memory is free.
const MOST: u64 = 64 << 20;
const SHARE_OF_FREE: u64 = 64;
/// Rows and columns of the matrices, at most.
const MOST_SIDE: u64 = 2048;
/// How often a load goes on beside another at first, and at most: until it takes longer than that.
const REPEATS: [u32; 2] = [4, 4096];

/// The work of a [`CudaDevice`](super::CudaDevice)'s lanes, without a plan, on a stream each.
pub struct CudaLoads {
    /// Of each load, in the order of [`Load::ALL`]; before the streams that they are for.
    jobs: Vec<Job>,
    streams: Vec<Stream>,
    events: Vec<[Event; 2]>,
    memory: DeviceMemory,
    host: Pinned,
    head_start: HeadStart,
    context: Context,
    /// Operations of [`Load::Product`] and bytes that [`Load::Pass`] reads and writes.
    pub amounts: [u64; 2],
}

enum Job {
    Kernels(Vec<Prepared>),
    /// Calls of cuBLAS, which plans run where it is there.
    Products(Blas, Vec<Vec<u64>>),
    Copy {
        direction: Direction,
        device: u64,
        host: u64,
        bytes: u64,
    },
}

impl CudaLoads {
    /// The loads of a device with these options: their number, the share of the multiprocessors
    /// that codecs may use, and whether products are cuBLAS's.
    ///
    /// # Errors
    /// If there is no such device, or too little memory, or the driver fails.
    pub fn open(options: &CudaOptions) -> Result<Self, CodecRunError> {
        let context = Context::open(options.ordinal)?;
        let codec_blocks = blocks_of(context.multiprocessors, options.codec_percent);
        let (free, _) = context.memory()?;
        let tensor = MOST.min(free.0 / SHARE_OF_FREE) & !4095;
        let side = ((tensor / 16).isqrt()).clamp(1, MOST_SIDE) as usize;
        let layout = Layout::new(Dtype::F32, &[(tensor / 4) as usize])?;
        let codec = codecs::codec(CodecId::Zvc)?;
        let zvc = [
            kernels::compress(CodecId::Zvc, &layout, codec_blocks)?,
            kernels::decompress(CodecId::Zvc, &layout, codec_blocks)?,
        ];
        // Product, activation, codec, copies: each has places of its own.
        let mut places = Offsets::default();
        let matrix = (side * side * 4) as u64;
        let product = [matrix; 3].map(|bytes| places.next(bytes));
        let pass = [tensor; 2].map(|bytes| places.next(bytes));
        let [input, payload, restored, control, scratch] = [
            tensor,
            codec.worst_case(&layout) as u64,
            tensor,
            16,
            zvc.iter().map(|launches| launches.scratch_bytes).max().unwrap_or(0),
        ]
        .map(|bytes| places.next(bytes));
        let copies = [tensor; 2].map(|bytes| places.next(bytes));
        let mut memory = DeviceMemory::new(&context, "what is measured", Bytes(places.end))?;
        // As a device's lanes have them.
        let streams = [Urgency::Low, Urgency::Low, Urgency::High, Urgency::High, Urgency::High];
        let streams = streams
            .into_iter()
            .map(|urgency| context.stream(urgency))
            .collect::<Result<Vec<_>, _>>()?;
        let product_stream = &streams[Load::Product as usize];
        product_stream.fill((&memory, 0), 0, places.end)?;
        product_stream.synchronize()?;
        // What cannot be opened is not used by devices either.
        let blas = (options.blas && Library::Cublas.is_present())
            .then(|| Blas::new(&context, product_stream).ok())
            .flatten();
        let used = ["product", "elementwise", "zvc"];
        let programs: Vec<_> =
            programs().into_iter().filter(|program| used.contains(&program.name())).collect();
        let kernels = context.kernels(&programs)?;
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.0, seed: 1 };
        memory.write(input, &recipe.bytes()?)?;
        memory.write(control, &[0, u64::MAX])?;

        let blocks = blocks_of(context.multiprocessors, 100);
        let address = |at: u64| memory.address(at, 0);
        let layer = |step: Step, reads: &[u64], write: u64, blas: Option<Blas>| {
            let cells = |at: &u64| Cells::new(address(*at), 0);
            let reads: Vec<_> = reads.iter().map(|at| Some(cells(at))).collect();
            let writes = [cells(&write)];
            let operands = OpOperands {
                reads: &reads,
                updates: &[],
                writes: &writes,
                workspace: 0,
                scratch: 0,
            };
            let means = Means { blas: blas.is_some(), ..Means::kernels(blocks) };
            let made = launches(&step, OpId(0), &operands, means);
            let failed = |why: super::launches::NoKernel| CudaError::Call {
                what: "making a load",
                why: why.to_string(),
            };
            let value = |argument: &Argument<u64>| argument.value(address(control + 8));
            let launches = made.map_err(failed)?.launches;
            let all = launches.iter();
            match blas.filter(|_| launches.iter().all(|launch| launch.program == BLAS.0)) {
                Some(blas) => {
                    let call = |launch: &Launch<_>| launch.arguments.iter().map(value).collect();
                    Ok(Job::Products(blas, all.map(call).collect()))
                }
                None => {
                    let prepared = all.map(|launch| kernels.prepare(launch, value));
                    Ok::<_, CudaError>(Job::Kernels(prepared.collect::<Result<_, _>>()?))
                }
            }
        };
        let linear = Linear { inputs: side, outputs: side, rows: side };
        let relu = Step::Activation(Activation::Relu, (tensor / 4) as usize);
        let codec = zvc.iter().zip([[input, payload], [payload, restored]]).flat_map(
            |(launches, [source, target])| {
                let value = move |argument: &CodecArgument| match *argument {
                    CodecArgument::Source => address(source),
                    CodecArgument::Target => address(target),
                    CodecArgument::Length => address(control),
                    CodecArgument::Status => address(control + 8),
                    CodecArgument::Scratch(at) => address(scratch + at),
                    CodecArgument::Number(number) => number,
                };
                let kernels = &kernels;
                launches.launches.iter().map(move |launch| kernels.prepare(launch, value))
            },
        );
        let copy = |direction: Direction| {
            let index = direction as u64;
            let device = copies[index as usize];
            Job::Copy { direction, device, host: index * tensor, bytes: tensor }
        };
        let jobs = vec![
            layer(Step::Linear(linear), &product[..2], product[2], blas)?,
            layer(relu, &pass[..1], pass[1], None)?,
            Job::Kernels(codec.collect::<Result<_, CudaError>>()?),
            copy(Direction::D2h),
            copy(Direction::H2d),
        ];
        let each = |_: &Job| Ok([context.event()?, context.event()?]);
        Ok(Self {
            streams,
            events: jobs.iter().map(each).collect::<Result<_, CudaError>>()?,
            host: Pinned::new(&context, Bytes(2 * tensor))?,
            head_start: HeadStart::new(&context)?,
            amounts: [2 * (side as u64).pow(3), 2 * tensor],
            jobs,
            memory,
            context,
        })
    }

    /// Whose product of matrices is measured: that which plans run, too.
    pub fn product(&self) -> &'static str {
        match self.jobs[Load::Product as usize] {
            Job::Products(..) => "cuBLAS",
            Job::Kernels(_) | Job::Copy { .. } => "our own kernels",
        }
    }

    /// How long a load takes while each of others goes on all the time.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn time(&mut self, load: Load, beside: &[Load]) -> Result<Nanos, CudaError> {
        let others: Vec<usize> =
            beside.iter().filter(|other| **other != load).map(|other| *other as usize).collect();
        let [mut repeats, most] = REPEATS;
        loop {
            let given = self.give(load as usize, &others, repeats);
            // Whatever was given ends before it is given again.
            self.context.synchronize()?;
            given?;
            let [begin, end] = &self.events[load as usize];
            let took = end.since(begin)?;
            let mut last = u64::MAX;
            for other in &others {
                last = last.min(self.events[*other][1].since(begin)?);
            }
            if last >= took || repeats >= most {
                return Ok(Nanos(took));
            }
            repeats *= 2;
        }
    }

    /// Gives others to their streams so many times, and the load once when all of them have begun.
    fn give(&self, load: usize, others: &[usize], repeats: u32) -> Result<(), CudaError> {
        let all = others.iter().chain([&load]).map(|index| &self.streams[*index]);
        self.head_start.give(all)?;
        for &other in others {
            self.streams[other].record(&self.events[other][0])?;
            for _ in 0..repeats {
                self.give_once(other)?;
            }
            self.streams[other].record(&self.events[other][1])?;
        }
        for &other in others {
            self.streams[load].wait(&self.events[other][0])?;
        }
        self.streams[load].record(&self.events[load][0])?;
        self.give_once(load)?;
        self.streams[load].record(&self.events[load][1])
    }

    fn give_once(&self, job: usize) -> Result<(), CudaError> {
        let stream = &self.streams[job];
        match &self.jobs[job] {
            Job::Kernels(launches) => launches.iter().try_for_each(|launch| stream.launch(launch)),
            Job::Products(blas, calls) => {
                calls.iter().try_for_each(|call| blas.multiply(call, false))
            }
            Job::Copy { direction, device, host, bytes } => {
                let (device, host) = ((&self.memory, *device), (&self.host, *host));
                stream.copy(*direction, device, host, *bytes)
            }
        }
    }
}

impl Drop for CudaLoads {
    fn drop(&mut self) {
        // What streams still do must not outlive the memory. What fails has no remedy here.
        let _ = self.context.synchronize();
    }
}
