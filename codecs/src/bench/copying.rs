//! Copying: as fast as anything that reads and writes memory can be, and on two threads no faster than
//! the memory is.

use std::time::Duration;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::{quotient, timed};

/// How fast a tensor is copied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copying {
    /// Bytes per second on one thread; each is read and written.
    pub bytes_per_second: f64,
    /// Speed on two threads over that on one: what a codec that waits for memory can reach.
    pub two_threads: f64,
}

/// Its buffer and best times, on one and on two threads.
pub(super) struct Timed {
    out: Vec<u8>,
    best: [Duration; 2],
}

impl Timed {
    pub(super) fn new(bytes: usize) -> Self {
        Self { out: vec![0xff; bytes], best: [Duration::MAX; 2] }
    }

    pub(super) fn run(&mut self, input: &[u8], pool: &ThreadPool, index: usize) {
        let part = input.len().div_ceil(pool.current_num_threads()).max(1);
        let parts = self.out.par_chunks_mut(part).zip(input.par_chunks(part));
        let ((), time) =
            timed(|| pool.install(|| parts.for_each(|(out, part)| out.copy_from_slice(part))));
        self.best[index] = self.best[index].min(time);
    }

    pub(super) fn result(&self) -> Copying {
        let [one, two] = self.best;
        let bytes_per_second = self.out.len() as f64 / one.as_secs_f64().max(1e-9);
        Copying { bytes_per_second, two_threads: quotient(one, two) }
    }
}
