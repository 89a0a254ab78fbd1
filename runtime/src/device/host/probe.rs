//! The host device's link alone, to be measured.

use std::time::Instant;
use std::{io, thread};

use schema::{Bytes, Direction, Link, Nanos};

use super::gate::Gate;
use super::link::Throttle;
use crate::device::Stop;

/// Copies over the link that a [`HostDevice`](super::HostDevice) has, without a plan.
pub struct LinkProbe {
    throttle: Throttle,
    /// Memory of each direction: what is copied, and where to.
    memory: [(Vec<u8>, Vec<u8>); 2],
}

impl LinkProbe {
    /// A probe of copies of at most `largest` bytes.
    pub fn new(link: Link, largest: Bytes) -> Self {
        // Pages that nobody has touched yet would cost the first copy.
        let memory = || (vec![1; largest.0 as usize], vec![2; largest.0 as usize]);
        Self { throttle: Throttle::new(link), memory: [memory(), memory()] }
    }

    /// How long a copy takes while the other direction is idle; larger ones than the probe was made
    /// for are cut off.
    pub fn alone(&mut self, direction: Direction, bytes: Bytes) -> Nanos {
        let stop = Stop::default();
        let memory = &mut self.memory[direction as usize];
        copy(&self.throttle, &Gate::new(&stop), direction, memory, bytes)
    }

    /// How long it takes until a copy in each direction has ended, both started at once.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn both(&mut self, bytes: Bytes) -> io::Result<Nanos> {
        let (stop, throttle) = (Stop::default(), &self.throttle);
        let gate = &Gate::new(&stop);
        let [out, back] = &mut self.memory;
        thread::scope(|scope| {
            let out = move || copy(throttle, gate, Direction::D2h, out, bytes);
            let out = thread::Builder::new().spawn_scoped(scope, out)?;
            let back = copy(throttle, gate, Direction::H2d, back, bytes);
            // A copy that panicked took no time.
            Ok(out.join().unwrap_or_default().max(back))
        })
    }
}

fn copy(
    throttle: &Throttle,
    gate: &Gate,
    direction: Direction,
    (from, to): &mut (Vec<u8>, Vec<u8>),
    bytes: Bytes,
) -> Nanos {
    let bytes = from.len().min(usize::try_from(bytes.0).unwrap_or(usize::MAX));
    let begin = Instant::now();
    // Nobody asks it to stop. As one that had to wait, it makes up for nothing.
    let _ = throttle.copy(gate, direction, true, &from[..bytes], &mut to[..bytes]);
    Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
