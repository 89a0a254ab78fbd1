//! Launches, resolved once and given to streams as often as one likes.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::ptr;

use codecs::kernels::Launch;
use cudarc::driver::{CudaFunction, result};

use super::{Kernels, Stream};
use crate::cuda::CudaError;
use crate::cuda::error::failed;

/// No kernel has more arguments.
const MOST_ARGUMENTS: usize = 64;

/// A launch with all that the driver wants of it.
#[derive(Debug)]
pub(in crate::cuda) struct Prepared {
    function: CudaFunction,
    sizes: [c_uint; 2],
    arguments: Box<[u64]>,
}

impl Kernels {
    /// A launch with arguments as the device takes them. Addresses among them are those of memory
    /// that lives until streams are done.
    pub fn prepare<A>(
        &self,
        launch: &Launch<A>,
        value: impl Fn(&A) -> u64,
    ) -> Result<Prepared, CudaError> {
        if launch.arguments.len() > MOST_ARGUMENTS {
            let why = format!("{} has too many arguments", launch.kernel);
            return Err(CudaError::Call { what: "launching", why });
        }
        Ok(Prepared {
            function: self.get(launch.program, &launch.kernel)?.clone(),
            sizes: [launch.blocks, launch.threads],
            arguments: launch.arguments.iter().map(value).collect(),
        })
    }
}

impl Stream {
    pub fn launch(&self, prepared: &Prepared) -> Result<(), CudaError> {
        let Prepared { function, sizes: [blocks, threads], arguments } = prepared;
        let mut parameters = [ptr::null_mut::<c_void>(); MOST_ARGUMENTS];
        for (parameter, argument) in parameters.iter_mut().zip(arguments) {
            *parameter = ptr::from_ref(argument).cast_mut().cast();
        }
        let (grid, block) = ((*blocks, 1, 1), (*threads, 1, 1));
        // SAFETY: the function's module is loaded; each of its parameters has 8 bytes, and the
        // driver copies them before it returns; a test holds the numbers of parameters.
        let launched = unsafe {
            let (function, stream) = (function.cu_function(), self.stream.cu_stream());
            result::launch_kernel(function, grid, block, 0, stream, &mut parameters)
        };
        launched.map_err(failed("launching a kernel"))
    }
}
