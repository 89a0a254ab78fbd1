//! nvCOMP's formats, timed as our kernels are.
#![allow(unsafe_code)]

use codecs::TensorView;
use schema::Bytes;

use super::abi::Options;
use super::{CHUNK_BYTES, Format, Needs, Nvcomp, done, refused};
use crate::cuda::CudaError;
use crate::cuda::codec_runs::{CodecTimes, CudaCodecs, POISON};
use crate::cuda::driver::{DeviceMemory, Stream};

/// A batch of chunks in the device's memory.
struct Batch {
    needs: Needs,
    bytes: usize,
    tensor: DeviceMemory,
    small: DeviceMemory,
    restored: DeviceMemory,
    temp: DeviceMemory,
    /// One list behind the other, of 8 bytes for each chunk (see `List`).
    lists: DeviceMemory,
}

/// Lists that the library reads or writes in the device's memory.
#[derive(Clone, Copy)]
enum List {
    Tensor,
    TensorBytes,
    Small,
    SmallBytes,
    Restored,
    RestoredBytes,
    /// Of 4 bytes for each chunk.
    Statuses,
}

impl Batch {
    fn address(&self, list: List) -> u64 {
        let each = 8 * self.needs.chunks as u64;
        self.lists.address(list as u64 * each, each)
    }

    /// Reads a list that the library has written.
    fn read(&self, list: List) -> Result<Vec<u64>, CudaError> {
        let mut numbers = vec![0; self.needs.chunks];
        self.lists.read(list as u64 * 8 * self.needs.chunks as u64, &mut numbers)?;
        Ok(numbers)
    }

    /// Whether every chunk was done, and the bytes of each.
    fn sizes(&self, what: &'static str, list: List) -> Result<Vec<u64>, CudaError> {
        let mut statuses = vec![0i32; self.needs.chunks];
        self.lists.read(List::Statuses as u64 * 8 * self.needs.chunks as u64, &mut statuses)?;
        match statuses.into_iter().find(|status| *status != 0) {
            Some(status) => Err(refused(what, status)),
            None => self.read(list),
        }
    }
}

impl CudaCodecs {
    /// Times a format of nvCOMP's on a tensor: runs that count, after one that does not. What comes back
    /// is compared with the tensor, after the first run and after the last.
    ///
    /// # Errors
    ///
    /// If the driver or the library fails, if there is too little memory, or if a byte differs.
    pub fn time_nvcomp(
        &mut self,
        nvcomp: &Nvcomp,
        format: Format,
        tensor: TensorView<'_>,
        runs: u32,
    ) -> Result<CodecTimes, CudaError> {
        let (compressing, decompressing) = ("compressing with nvCOMP", "decompressing with nvCOMP");
        let (mut length, mut compress, mut decompress) = (0, Vec::new(), Vec::new());
        let batch = self.batch(nvcomp, format, tensor)?;
        for run in 0..=runs {
            self.fill(&batch.lists, List::Statuses as u64 * 8 * batch.needs.chunks as u64)?;
            let took = self.timed(|stream| nvcomp.compress(format, tensor, &batch, stream))?;
            compress.extend((run > 0).then_some(took));
            if run == 0 || run == runs {
                let sizes = batch.sizes(compressing, List::SmallBytes)?;
                if sizes.iter().any(|size| *size > batch.needs.room as u64) {
                    let why = "a chunk grew more than the library said".into();
                    return Err(CudaError::Call { what: compressing, why });
                }
                length = sizes.iter().sum::<u64>() as usize;
            }
        }
        for run in 0..=runs {
            self.fill(&batch.lists, List::Statuses as u64 * 8 * batch.needs.chunks as u64)?;
            self.fill(&batch.restored, 0)?;
            let took = self.timed(|stream| nvcomp.decompress(format, &batch, stream))?;
            decompress.extend((run > 0).then_some(took));
            if run == 0 || run == runs {
                let sizes = batch.sizes(decompressing, List::RestoredBytes)?;
                let mut restored = vec![0u8; batch.bytes];
                batch.restored.read(0, &mut restored)?;
                let pairs = restored.iter().zip(tensor.bytes());
                let other = pairs.into_iter().position(|(found, expected)| found != expected);
                if other.is_some() || sizes.iter().sum::<u64>() != batch.bytes as u64 {
                    let at = other.unwrap_or(0);
                    let why = format!("{format} brings other bytes back, from byte {at} on");
                    return Err(CudaError::Call { what: decompressing, why });
                }
            }
        }
        Ok(CodecTimes { length, compress: Some(compress), decompress })
    }

    /// Fills memory from a place on with what nobody means, and waits for it.
    fn fill(&self, memory: &DeviceMemory, from: u64) -> Result<(), CudaError> {
        self.stream.fill((memory, from), POISON, memory.bytes() - from)?;
        self.stream.synchronize()
    }

    /// Memory for a tensor's chunks, with the tensor in it.
    fn batch(
        &self,
        nvcomp: &Nvcomp,
        format: Format,
        tensor: TensorView<'_>,
    ) -> Result<Batch, CudaError> {
        self.context.bind()?;
        let bytes = tensor.bytes().len();
        let needs = nvcomp.needs(format, tensor.layout().dtype(), bytes, self.stream.raw())?;
        let stride = needs.room.next_multiple_of(needs.alignments.output.max(1)) as u64;
        let memory = |bytes: u64| DeviceMemory::new(&self.context, "nvCOMP", Bytes(bytes));
        let chunks = needs.chunks as u64;
        let mut batch = Batch {
            needs,
            bytes,
            tensor: memory(bytes as u64)?,
            small: memory(chunks * stride)?,
            restored: memory(bytes as u64)?,
            temp: memory(needs.temp.into_iter().max().unwrap_or(0) as u64)?,
            lists: memory(chunks * 8 * (List::Statuses as u64 + 1))?,
        };
        batch.tensor.write(0, tensor.bytes())?;
        let of = |index: u64| {
            (
                index * CHUNK_BYTES as u64,
                CHUNK_BYTES.min(bytes - index as usize * CHUNK_BYTES) as u64,
            )
        };
        let list = |number: &dyn Fn(u64) -> u64| (0..chunks).map(number).collect::<Vec<_>>();
        let lists = [
            list(&|index| batch.tensor.address(of(index).0, of(index).1)),
            list(&|index| of(index).1),
            list(&|index| batch.small.address(index * stride, stride)),
            vec![0; chunks as usize],
            list(&|index| batch.restored.address(of(index).0, of(index).1)),
        ]
        .concat();
        for (memory, alignment) in [
            (&batch.tensor, needs.alignments.input),
            (&batch.small, needs.alignments.output),
            (&batch.restored, needs.alignments.input),
            (&batch.temp, needs.alignments.temp),
        ] {
            if !memory.address(0, 0).is_multiple_of(alignment.max(1) as u64) {
                let why = format!("it wants memory aligned to {alignment} bytes");
                return Err(CudaError::Call { what: "preparing for nvCOMP", why });
            }
        }
        batch.lists.write(0, &lists)?;
        Ok(batch)
    }
}

impl Nvcomp {
    /// Compresses a batch, later.
    fn compress(
        &self,
        format: Format,
        tensor: TensorView<'_>,
        batch: &Batch,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let [temp, _] = batch.needs.temp;
        // SAFETY: lists and memory are as the library wants them, and live until the stream is done.
        let status = unsafe {
            (self.functions(format).compress.run)(
                batch.address(List::Tensor) as *const _,
                batch.address(List::TensorBytes) as *const _,
                CHUNK_BYTES.min(batch.bytes),
                batch.needs.chunks,
                batch.temp.address(0, temp as u64) as *mut _,
                temp,
                batch.address(List::Small) as *const _,
                batch.address(List::SmallBytes) as *mut _,
                format.options(tensor.layout().dtype()),
                batch.address(List::Statuses) as *mut _,
                stream.raw(),
            )
        };
        done("compressing with nvCOMP", status)
    }

    /// Brings a batch back that was compressed, later.
    fn decompress(&self, format: Format, batch: &Batch, stream: &Stream) -> Result<(), CudaError> {
        let [_, temp] = batch.needs.temp;
        // SAFETY: as above.
        let status = unsafe {
            (self.functions(format).decompress.run)(
                batch.address(List::Small) as *const _,
                batch.address(List::SmallBytes) as *const _,
                batch.address(List::TensorBytes) as *const _,
                batch.address(List::RestoredBytes) as *mut _,
                batch.needs.chunks,
                batch.temp.address(0, temp as u64) as *mut _,
                temp,
                batch.address(List::Restored) as *const _,
                Options::default(),
                batch.address(List::Statuses) as *mut _,
                stream.raw(),
            )
        };
        done("decompressing with nvCOMP", status)
    }
}
