//! Moving and filling memory beyond what plans do: for what is measured.
#![allow(unsafe_code)]

use cudarc::driver::result;

use super::{DeviceMemory, Event, Pinned, Stream, failed};
use crate::cuda::CudaError;

impl Stream {
    /// Fills memory of the device with a byte, later.
    pub fn fill(
        &self,
        (memory, at): (&DeviceMemory, u64),
        byte: u8,
        bytes: u64,
    ) -> Result<(), CudaError> {
        let begin = memory.address(at, bytes);
        // SAFETY: the place lies inside of memory that lives until the stream is done.
        let filled = unsafe {
            result::memset_d8_async(begin, byte, bytes as usize, self.stream.cu_stream())
        };
        filled.map_err(failed("filling memory"))
    }

    /// Copies within the device, later.
    pub fn copy_within(
        &self,
        (to, to_at): (&DeviceMemory, u64),
        (from, from_at): (&DeviceMemory, u64),
        bytes: u64,
    ) -> Result<(), CudaError> {
        let (to, from) = (to.address(to_at, bytes), from.address(from_at, bytes));
        // SAFETY: both places lie inside of memory that lives until the stream is done.
        let copied =
            unsafe { result::memcpy_dtod_async(to, from, bytes as usize, self.stream.cu_stream()) };
        copied.map_err(failed("copying within the device"))
    }

    /// Copies from the device to memory that is not pinned, between two moments, and waits for it.
    pub fn copy_out_pageable(
        &self,
        (device, at): (&DeviceMemory, u64),
        host: &mut [u8],
        [begin, end]: &[Event; 2],
    ) -> Result<(), CudaError> {
        let from = device.address(at, host.len() as u64);
        self.record(begin)?;
        // SAFETY: the place lies inside, and the stream is waited for before `host` is given back.
        let copied = unsafe { result::memcpy_dtoh_async(host, from, self.stream.cu_stream()) };
        let recorded = self.record(end);
        self.synchronize()?;
        copied.map_err(failed("copying to pageable memory"))?;
        recorded
    }

    /// Copies to the device from memory that is not pinned, between two moments, and waits for it.
    pub fn copy_in_pageable(
        &self,
        (device, at): (&DeviceMemory, u64),
        host: &[u8],
        [begin, end]: &[Event; 2],
    ) -> Result<(), CudaError> {
        let to = device.address(at, host.len() as u64);
        self.record(begin)?;
        // SAFETY: as above.
        let copied = unsafe { result::memcpy_htod_async(to, host, self.stream.cu_stream()) };
        let recorded = self.record(end);
        self.synchronize()?;
        copied.map_err(failed("copying from pageable memory"))?;
        recorded
    }

    /// Waits for all that the stream was given.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(failed("waiting for a stream"))
    }
}

impl Pinned {
    /// Writes from a place on, while no stream does anything with it.
    pub fn write(&mut self, at: u64, data: &[u8]) {
        let to = self.address(at, data.len() as u64);
        // SAFETY: the place lies inside, and as the only one who has the memory to write to, the caller
        // is the only one who writes there.
        let to = unsafe {
            std::slice::from_raw_parts_mut(
                std::ptr::with_exposed_provenance_mut(to as usize),
                data.len(),
            )
        };
        to.copy_from_slice(data);
    }
}
