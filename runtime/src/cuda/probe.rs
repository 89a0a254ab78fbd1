//! What a CUDA device says of itself, and its link, to be measured.

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use schema::{Bytes, Direction, Nanos};

use super::CudaError;
use super::driver::{Context, DeviceMemory, Event, Pinned, Stream};

/// Copies over a device's link without a plan, from and to pinned memory.
pub struct CudaProbe {
    device: DeviceMemory,
    host: Pinned,
    /// Bytes of the memory that one direction has.
    largest: u64,
    streams: [Stream; 2],
    events: [[Event; 2]; 2],
    context: Context,
}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaFacts {
    /// Its product name.
    pub name: String,
    /// Its memory.
    pub memory: Bytes,
    /// What of it is free.
    pub free: Bytes,
    /// Operations on 32-bit floats per second, from its multiprocessors, their cores and its clock.
    pub f32_flops: u64,
    /// Bytes per second of its memory, from that memory's clock and width.
    pub memory_bandwidth: u64,
}

impl CudaProbe {
    /// A probe of copies of at most `largest` bytes, on the device of this number.
    ///
    /// # Errors
    ///
    /// If there is no such device, or not so much memory.
    pub fn open(ordinal: usize, largest: Bytes) -> Result<Self, CudaError> {
        let context = Context::open(ordinal)?;
        let both = Bytes(largest.0.saturating_mul(2));
        Ok(Self {
            device: DeviceMemory::new(&context, "the measurement of the link", both)?,
            host: Pinned::new(&context, both)?,
            largest: largest.0,
            streams: [context.stream()?, context.stream()?],
            events: [[context.event()?, context.event()?], [context.event()?, context.event()?]],
            context,
        })
    }

    /// What the device says of itself.
    ///
    /// # Errors
    ///
    /// If the driver does not tell.
    pub fn facts(&self) -> Result<CudaFacts, CudaError> {
        let (free, memory) = self.context.memory()?;
        let ask = |attribute| self.context.attribute(attribute);
        // In kilohertz and bits; memory transfers twice a clock.
        let clock = ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let memory_clock = ask(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let width = ask(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        let cores = u64::from(self.context.multiprocessors) * cores(self.context.capability);
        Ok(CudaFacts {
            name: self.context.name.clone(),
            memory,
            free,
            f32_flops: (2 * cores * clock * 1000).max(1),
            memory_bandwidth: (2 * memory_clock * 1000 * width / 8).max(1),
        })
    }

    /// How long a copy takes while the other direction is idle; larger ones than the probe was made
    /// for are cut off.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos, CudaError> {
        self.start(direction, bytes)?;
        self.context.synchronize()?;
        let [begin, end] = &self.events[direction as usize];
        Ok(Nanos(end.since(begin)?))
    }

    /// How long it takes until a copy in each direction has ended, both started at once.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn both(&mut self, bytes: Bytes) -> Result<Nanos, CudaError> {
        self.start(Direction::D2h, bytes)?;
        self.start(Direction::H2d, bytes)?;
        self.context.synchronize()?;
        let [[begin, out], [_, back]] = &self.events;
        Ok(Nanos(out.since(begin)?.max(back.since(begin)?)))
    }

    fn start(&self, direction: Direction, bytes: Bytes) -> Result<(), CudaError> {
        let bytes = bytes.0.min(self.largest);
        let [begin, end] = &self.events[direction as usize];
        let stream = &self.streams[direction as usize];
        stream.record(begin)?;
        match direction {
            Direction::D2h => stream.copy_out((&self.device, 0), (&self.host, 0), bytes)?,
            Direction::H2d => {
                stream.copy_in((&self.device, self.largest), (&self.host, self.largest), bytes)?;
            }
        }
        stream.record(end)
    }
}

impl Drop for CudaProbe {
    fn drop(&mut self) {
        // What streams still do must not outlive the memory. What fails has no remedy here.
        let _ = self.context.synchronize();
    }
}

/// Cores for 32-bit floats of a multiprocessor, by compute capability (CUDA C++ Programming Guide,
/// "Arithmetic Instructions").
fn cores((major, minor): (i32, i32)) -> u64 {
    match (major, minor) {
        (7, _) | (8, 0) => 64,
        _ => 128,
    }
}
