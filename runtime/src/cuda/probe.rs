//! What a CUDA device says of itself, and its link, to be measured.

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use schema::{Bytes, Direction, Nanos};

use super::CudaError;
use super::driver::{Context, DeviceMemory, Event, Pinned, Stream, Urgency};
use super::head_start::HeadStart;
use super::version::driver_version;

/// Copies over a device's link without a plan, from and to pinned memory, and memory that is not.
pub struct CudaProbe {
    device: DeviceMemory,
    host: Pinned,
    pageable: Vec<u8>,
    /// Bytes of the memory that one direction has.
    largest: u64,
    /// Free memory of the device, and all of it, before any was taken.
    memory: (Bytes, Bytes),
    streams: [Stream; 2],
    events: [[Event; 2]; 2],
    head_start: HeadStart,
    context: Context,
}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct CudaFacts {
    /// Its product name.
    pub name: String,
    /// The number that no other device has.
    pub uuid: String,
    /// Its compute capability, major and minor.
    pub capability: (i32, i32),
    /// The newest version of CUDA that its driver knows, major and minor.
    pub driver: (u32, u32),
    pub multiprocessors: u32,
    /// The highest clock of its multiprocessors, in kilohertz.
    pub clock_khz: u64,
    /// The highest clock of its memory, in kilohertz.
    pub memory_clock_khz: u64,
    pub memory: Bytes,
    pub free: Bytes,
    /// Operations on 32-bit floats per second, from its multiprocessors, their cores and its clock.
    pub f32_flops: u64,
    /// Bytes per second of its memory, from that memory's clock and width.
    pub memory_bandwidth: u64,
}

/// Of what of the device's memory is free, the share that a direction's copies may take.
const SHARE_OF_FREE: u64 = 4;

impl CudaProbe {
    /// A probe of copies of at most `largest` bytes, and at most a quarter of the device's free
    /// memory, on the device of this number.
    ///
    /// # Errors
    /// If there is no such device, or not so much memory.
    pub fn open(ordinal: usize, largest: Bytes) -> Result<Self, CudaError> {
        let context = Context::open(ordinal)?;
        let memory = context.memory()?;
        let (free, _) = memory;
        let largest = largest.0.min(free.0 / SHARE_OF_FREE);
        let both = Bytes(largest.saturating_mul(2));
        Ok(Self {
            device: DeviceMemory::new(&context, "the measurement of the link", both)?,
            host: Pinned::new(&context, both)?,
            // Pages that nobody has touched yet would cost the first copy.
            pageable: vec![1; largest as usize],
            largest,
            memory,
            streams: [context.stream(Urgency::High)?, context.stream(Urgency::High)?],
            events: [[context.event()?, context.event()?], [context.event()?, context.event()?]],
            head_start: HeadStart::new(&context)?,
            context,
        })
    }

    /// The largest copy that it can time.
    pub fn largest(&self) -> Bytes {
        Bytes(self.largest)
    }

    /// What the device says of itself.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn facts(&self) -> Result<CudaFacts, CudaError> {
        let (free, memory) = self.memory;
        let ask = |attribute| self.context.attribute(attribute);
        // In kilohertz and bits; memory transfers twice a clock.
        let clock = ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let memory_clock = ask(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let width = ask(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        let cores = u64::from(self.context.multiprocessors) * cores(self.context.capability);
        Ok(CudaFacts {
            name: self.context.name.clone(),
            uuid: self.context.uuid()?,
            capability: self.context.capability,
            driver: driver_version()?,
            multiprocessors: self.context.multiprocessors,
            clock_khz: clock,
            memory_clock_khz: memory_clock,
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
    /// If the driver fails.
    pub fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos, CudaError> {
        self.head_start.give([&self.streams[direction as usize]])?;
        self.start(direction, bytes)?;
        self.context.synchronize()?;
        let [begin, end] = &self.events[direction as usize];
        Ok(Nanos(end.since(begin)?))
    }

    /// How long a copy to or from memory takes that is not pinned, while the other direction is
    /// idle. The host works on it, too, so that it begins when the host does.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn pageable(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos, CudaError> {
        let at = self.place(direction);
        let host = &mut self.pageable[..bytes.0.min(self.largest) as usize];
        let events = &self.events[direction as usize];
        let stream = &self.streams[direction as usize];
        stream.copy_pageable(direction, (&self.device, at), host, events)?;
        let [begin, end] = events;
        Ok(Nanos(end.since(begin)?))
    }

    /// How long it takes until a copy in each direction has ended, both started at once.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn both(&mut self, bytes: Bytes) -> Result<Nanos, CudaError> {
        self.head_start.give(&self.streams)?;
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
        let at = self.place(direction);
        stream.copy(direction, (&self.device, at), (&self.host, at), bytes)?;
        stream.record(end)
    }

    /// Where a direction's memory begins, on either side.
    fn place(&self, direction: Direction) -> u64 {
        direction as u64 * self.largest
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
