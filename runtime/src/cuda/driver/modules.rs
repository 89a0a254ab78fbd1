//! What a process keeps of a device from one user to the next: its context, and the programs that
//! were compiled and loaded into it, which take a second or more.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use codecs::kernels::Program;
use cudarc::driver::{CudaContext, CudaFunction};

use super::Context;
use crate::cuda::CudaError;
use crate::cuda::error::failed;

pub(super) type Functions = BTreeMap<String, CudaFunction>;

/// Programs by name, all compiled for the one device that they are loaded into.
pub(super) type Loaded = Mutex<BTreeMap<&'static str, Arc<Functions>>>;

type Primary = (Arc<CudaContext>, Arc<Loaded>);

/// By number. They are never given back: the driver does that when the process ends.
static DEVICES: Mutex<BTreeMap<usize, Primary>> = Mutex::new(BTreeMap::new());

/// A device's context, and what has been loaded into it.
pub(super) fn primary(ordinal: usize) -> Result<Primary, CudaError> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let (context, loaded) = match devices.entry(ordinal) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(free) => {
            let context = CudaContext::new(ordinal).map_err(failed("opening the device"))?;
            // SAFETY: nothing here is a slice of cudarc's; the plan has all ordering.
            unsafe { context.disable_event_tracking() };
            free.insert((context, Arc::default()))
        }
    };
    // What went wrong while another user gave things back is none of this one's business; a device
    // that is lost says so anew.
    let _ = context.check_err();
    Ok((context.clone(), loaded.clone()))
}

#[derive(Debug)]
pub(in crate::cuda) struct Kernels {
    programs: BTreeMap<&'static str, Arc<Functions>>,
}

impl Kernels {
    pub(super) fn get(&self, program: &str, kernel: &str) -> Result<&CudaFunction, CudaError> {
        let found = self.programs.get(program).and_then(|functions| functions.get(kernel));
        let no_kernel = || CudaError::Call { what: "launching", why: format!("no {kernel}") };
        found.ok_or_else(no_kernel)
    }
}

/// Compilers recurse deeply.
const STACK: usize = 16 << 20;

impl Context {
    /// Compiles and loads programs, all at once, unless some user of the device has done so before.
    pub fn kernels(&self, programs: &[Program]) -> Result<Kernels, CudaError> {
        // Whoever else wants them waits for them.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<&Program> =
            programs.iter().filter(|program| !loaded.contains_key(program.name())).collect();
        let found = thread::scope(|scope| {
            let load = |program| {
                let builder = thread::Builder::new().stack_size(STACK);
                (program, builder.spawn_scoped(scope, move || self.load(program)))
            };
            let running: Vec<_> = missing.into_iter().map(load).collect();
            let join =
                |(program, running): (&Program, std::io::Result<thread::ScopedJoinHandle<_>>)| {
                    // Where the system has no thread left, this one does it.
                    let functions = match running.map(thread::ScopedJoinHandle::join) {
                        Ok(Ok(functions)) => functions,
                        Ok(Err(panic)) => std::panic::resume_unwind(panic),
                        Err(_) => self.load(program),
                    };
                    (program.name(), functions)
                };
            running.into_iter().map(join).collect::<Vec<_>>()
        });
        for (name, functions) in found {
            loaded.insert(name, Arc::new(functions?));
        }
        let of = |program: &Program| Some((program.name(), loaded.get(program.name())?.clone()));
        Ok(Kernels { programs: programs.iter().filter_map(of).collect() })
    }
}
