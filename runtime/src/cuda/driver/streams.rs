//! Streams and the moments of them.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream, cuEventElapsedTime};
use cudarc::driver::{CudaEvent, CudaStream, result};
use schema::{Direction, Lane};

use super::{Context, DeviceMemory, Pinned};
use crate::cuda::CudaError;
use crate::cuda::error::failed;

/// Whose blocks of threads come first where multiprocessors become free. Blocks that run are not
/// interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) enum Urgency {
    /// Layers, of which each fills the device: what waits for all of them would wait for long.
    Low,
    /// Copies and codecs, which others wait for.
    High,
}

impl Urgency {
    pub fn of(lane: Lane) -> Self {
        match lane {
            Lane::Compute => Self::Low,
            _ => Self::High,
        }
    }
}

#[derive(Debug)]
pub(in crate::cuda) struct Stream {
    pub(super) stream: Arc<CudaStream>,
}

#[derive(Debug)]
pub(in crate::cuda) struct Event {
    event: CudaEvent,
}

impl Context {
    /// A stream of the highest or the lowest priority that the device has.
    pub fn stream(&self, urgency: Urgency) -> Result<Stream, CudaError> {
        let failed = failed("making a stream");
        self.bind()?;
        let (least, greatest) = result::stream::get_priority_range().map_err(failed)?;
        let priority = match urgency {
            Urgency::Low => least,
            Urgency::High => greatest,
        };
        let stream = self.context.new_stream_with_priority(priority).map_err(failed)?;
        Ok(Stream { stream })
    }

    /// An event that says when.
    pub fn event(&self) -> Result<Event, CudaError> {
        self.event_with(CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// An event that only says that, not when.
    pub fn order(&self) -> Result<Event, CudaError> {
        self.event_with(CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn event_with(&self, flags: CUevent_flags) -> Result<Event, CudaError> {
        let event = self.context.new_event(Some(flags)).map_err(failed("making an event"))?;
        Ok(Event { event })
    }
}

impl Stream {
    /// As the driver has it, for a library that works on it.
    pub fn raw(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// Notes the moment when all that the stream was given so far has ended.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        event.event.record(&self.stream).map_err(failed("recording an event"))
    }

    /// Lets what the stream is given from now on wait for a moment.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        self.stream.wait(&event.event).map_err(failed("waiting for an event"))
    }

    /// Copies between the device and pinned memory, later.
    pub fn copy(
        &self,
        direction: Direction,
        (device, at): (&DeviceMemory, u64),
        (host, there): (&Pinned, u64),
        bytes: u64,
    ) -> Result<(), CudaError> {
        let (device, host) = (device.address(at, bytes), host.address(there, bytes));
        let (stream, bytes) = (self.raw(), bytes as usize);
        // SAFETY: both places lie inside of memory that lives until the stream is done, and nobody
        // else has a slice of the pinned one.
        let copied = unsafe {
            match direction {
                Direction::D2h => {
                    let host = std::slice::from_raw_parts_mut(host as *mut u8, bytes);
                    result::memcpy_dtoh_async(host, device, stream)
                }
                Direction::H2d => {
                    let host = std::slice::from_raw_parts(host as *const u8, bytes);
                    result::memcpy_htod_async(device, host, stream)
                }
            }
        };
        copied.map_err(failed(match direction {
            Direction::D2h => "copying to the host",
            Direction::H2d => "copying to the device",
        }))
    }
}

impl Event {
    pub fn raw(&self) -> CUevent {
        self.event.cu_event()
    }

    /// Nanoseconds from another event to this one, both of which have come.
    pub fn since(&self, start: &Self) -> Result<u64, CudaError> {
        let failed = failed("asking when an event came");
        start.event.synchronize().map_err(failed)?;
        self.event.synchronize().map_err(failed)?;
        let mut milliseconds = 0f32;
        // The first version of this function, which says the same: drivers have the second since
        // CUDA 12.8 alone, and what is not there cannot be called. SAFETY: both events are open; it
        // writes one number.
        let asked = unsafe { cuEventElapsedTime(&raw mut milliseconds, start.raw(), self.raw()) };
        asked.result().map_err(failed)?;
        Ok((f64::from(milliseconds.max(0.0)) * 1e6).round() as u64)
    }
}
