//! Work of the host's processor between what a stream does.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::result;

use super::{Pinned, Stream};
use crate::cuda::CudaError;
use crate::cuda::error::failed;

pub(in crate::cuda) type PinnedPlace<'a> = (&'a Pinned, u64, u64);

/// What the host's processor does with two places in pinned memory when a stream comes to it.
pub(in crate::cuda) struct HostCall {
    places: [(u64, usize); 2],
    work: Box<Work>,
}

/// Must not panic, which would end the process, nor call the driver.
pub(in crate::cuda) type Work = dyn Fn(&mut [u8], &mut [u8]) + Send + Sync;

impl HostCall {
    /// Work with two places that do not overlap, where they begin and their bytes. On a heap: its
    /// address is what the driver is given.
    pub fn new(places: [PinnedPlace<'_>; 2], work: Box<Work>) -> Box<Self> {
        let place =
            |(memory, at, bytes): PinnedPlace<'_>| (memory.address(at, bytes), bytes as usize);
        Box::new(Self { places: places.map(place), work })
    }
}

impl Stream {
    /// Lets the host's processor do something, later, when all that the stream was given so far has
    /// ended; what it is given from now on comes after. The call and its places live until the
    /// stream is done.
    pub fn call(&self, call: &HostCall) -> Result<(), CudaError> {
        let data = std::ptr::from_ref(call) as *mut c_void;
        // SAFETY: the call lives until the stream is done, as its device drains streams before it
        // drops anything.
        let given = unsafe {
            result::stream::launch_host_function(self.stream.cu_stream(), carry_out, data)
        };
        given.map_err(failed("calling the host"))
    }
}

/// What the driver calls, on a thread of its own.
unsafe extern "C" fn carry_out(data: *mut c_void) {
    // SAFETY: `data` is the call that the stream was given, which lives. Its places lie inside of
    // pinned memory, do not overlap, and are nobody else's at this point of the stream: the plan
    // has it, as for every copy.
    unsafe {
        let call = &*(data as *const HostCall);
        let [first, second] = call.places.map(|(at, bytes)| {
            std::slice::from_raw_parts_mut(
                std::ptr::with_exposed_provenance_mut(at as usize),
                bytes,
            )
        });
        (call.work)(first, second);
    }
}
