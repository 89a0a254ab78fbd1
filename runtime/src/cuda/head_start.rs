//! What is timed begins on streams that wait for something else: then it starts as soon as it may,
//! not when the host gets round to giving it, which takes longer than a small copy or kernel
//! itself. What they wait for fills the device's cache with something else, as all that happens in
//! an iteration between two uses of a tensor does.

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
use schema::Bytes;

use super::CudaError;
use super::driver::{Context, DeviceMemory, Event, Stream, Urgency};

/// Something that takes a stream of its own some time.
pub(super) struct HeadStart {
    stream: Stream,
    over: Event,
    memory: DeviceMemory,
}

/// How often what is filled would fill the cache, and the least bytes: some tens of microseconds by
/// the bandwidth of any device's memory, in which the host gives a dozen launches.
const CACHES: u64 = 4;
const LEAST: u64 = 64 << 20;
/// Of what of the device's memory is free, the share that it takes at most.
const SHARE_OF_FREE: u64 = 64;

impl HeadStart {
    /// For streams of the device.
    pub fn new(context: &Context) -> Result<Self, CudaError> {
        let cache = context.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let (free, _) = context.memory()?;
        let bytes = cache.saturating_mul(CACHES).max(LEAST).min(free.0 / SHARE_OF_FREE);
        Ok(Self {
            memory: DeviceMemory::new(context, "what caches hold between runs", Bytes(bytes))?,
            stream: context.stream(Urgency::High)?,
            over: context.order()?,
        })
    }

    /// Lets what streams are given from now on wait for a while, and begin together.
    pub fn give<'s>(&self, streams: impl IntoIterator<Item = &'s Stream>) -> Result<(), CudaError> {
        self.stream.fill((&self.memory, 0), 0, self.memory.bytes())?;
        self.stream.record(&self.over)?;
        streams.into_iter().try_for_each(|stream| stream.wait(&self.over))
    }
}
