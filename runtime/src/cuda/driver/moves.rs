//! Moving and filling memory beyond what plans do: for what is measured.
#![allow(unsafe_code)]

use cudarc::driver::result;
use schema::Direction;

use super::{DeviceMemory, Event, Pinned, Stream};
use crate::cuda::CudaError;
use crate::cuda::error::failed;

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
        let filled = unsafe { result::memset_d8_async(begin, byte, bytes as usize, self.raw()) };
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
        let copied = unsafe { result::memcpy_dtod_async(to, from, bytes as usize, self.raw()) };
        copied.map_err(failed("copying within the device"))
    }

    /// Copies between the device and memory that is not pinned, between two moments, and waits for
    /// it.
    pub fn copy_pageable(
        &self,
        direction: Direction,
        (device, at): (&DeviceMemory, u64),
        host: &mut [u8],
        [begin, end]: &[Event; 2],
    ) -> Result<(), CudaError> {
        let device = device.address(at, host.len() as u64);
        self.record(begin)?;
        // SAFETY: the place lies inside, and the stream is waited for before `host` is given back.
        let copied = unsafe {
            match direction {
                Direction::D2h => result::memcpy_dtoh_async(host, device, self.raw()),
                Direction::H2d => result::memcpy_htod_async(device, host, self.raw()),
            }
        };
        let recorded = self.record(end);
        self.synchronize()?;
        copied.map_err(failed(match direction {
            Direction::D2h => "copying to pageable memory",
            Direction::H2d => "copying from pageable memory",
        }))?;
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
        self.bytes(at, data.len()).copy_from_slice(data);
    }

    /// What lies at a place, while no stream does anything with it.
    pub fn bytes(&mut self, at: u64, bytes: usize) -> &mut [u8] {
        let begin = self.address(at, bytes as u64);
        // SAFETY: the place lies inside, plain bytes, and as the only one who has the memory to write
        // to, the caller is the only one who reads or writes there.
        unsafe {
            std::slice::from_raw_parts_mut(
                std::ptr::with_exposed_provenance_mut(begin as usize),
                bytes,
            )
        }
    }
}
