//! What keeps parts of the host device busy, to be measured beside each other.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use rayon::ThreadPool;
use schema::{Direction, Dtype, Link, Nanos};

use super::gate::Gate;
use super::link::Throttle;
use crate::device::{Load, Stop};
use crate::layers::{Activation, Function, Linear};

const SIDE: usize = 384;
/// Floats of the activation and of the tensor that the codec works on.
const FLOATS: usize = 1 << 20;
const COPIED: usize = 512 << 10;

/// The work of a [`HostDevice`](super::HostDevice)'s lanes, without a plan.
pub struct HostLoads {
    throttle: Throttle,
    jobs: [Mutex<Job>; Load::ALL.len()],
}

enum Job {
    Product { x: Vec<f32>, w: Vec<f32>, y: Vec<f32> },
    Pass { x: Vec<f32>, y: Vec<f32> },
    Codec(CodecJob),
    Copy { direction: Direction, from: Vec<u8>, to: Vec<u8> },
}

struct CodecJob {
    codec: Box<dyn Codec>,
    /// As a device's codecs have them: one.
    threads: ThreadPool,
    layout: Layout,
    tensor: Vec<u8>,
    payload: Vec<u8>,
    restored: Vec<u8>,
}

impl HostLoads {
    /// The loads of a device with this link.
    ///
    /// # Errors
    /// [`codecs::Error::NoThreads`] where the system gives no thread.
    pub fn new(link: Link) -> Result<Self, codecs::Error> {
        // Pages that nobody has touched yet would cost the first run.
        let floats = |count: usize| vec![0.5f32; count];
        let copy = |direction| Job::Copy { direction, from: vec![1; COPIED], to: vec![2; COPIED] };
        let side = SIDE * SIDE;
        Ok(Self {
            throttle: Throttle::new(link),
            // In the order of `Load::ALL`.
            jobs: [
                Job::Product { x: floats(side), w: floats(side), y: floats(side) },
                Job::Pass { x: floats(FLOATS), y: floats(FLOATS) },
                Job::Codec(CodecJob::new()?),
                copy(Direction::D2h),
                copy(Direction::H2d),
            ]
            .map(Mutex::new),
        })
    }

    /// How long a load takes while each of others goes on all the time on a thread of its own.
    ///
    /// # Errors
    /// Those of codecs, and [`codecs::Error::NoThreads`] where the system gives none.
    pub fn time(&self, load: Load, beside: &[Load]) -> Result<Nanos, codecs::Error> {
        let (begun, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let others: Vec<_> = (beside.iter().filter(|other| **other != load))
                .map(|other| {
                    thread::Builder::new().spawn_scoped(scope, || {
                        // Caches and pages are warm when it counts as begun.
                        let mut all = self.run(*other);
                        begun.fetch_add(1, Ordering::AcqRel);
                        while all.is_ok() && !done.load(Ordering::Acquire) {
                            all = self.run(*other);
                        }
                        all
                    })
                })
                .collect();
            let started: Result<Vec<_>, _> = others.into_iter().collect();
            let others = started.map_err(|_| {
                done.store(true, Ordering::Release);
                codecs::Error::NoThreads { threads: beside.len() }
            })?;
            while begun.load(Ordering::Acquire) < others.len() {
                thread::yield_now();
            }
            let begin = Instant::now();
            let ran = self.run(load);
            let took = begin.elapsed();
            done.store(true, Ordering::Release);
            for other in others {
                // One that panicked says so by itself when the scope ends.
                other.join().unwrap_or(Ok(()))?;
            }
            ran?;
            Ok(Nanos(took.as_nanos() as u64))
        })
    }

    fn run(&self, load: Load) -> Result<(), codecs::Error> {
        let mut job = self.jobs[load as usize].lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *job {
            Job::Product { x, w, y } => {
                let product = Linear { inputs: SIDE, outputs: SIDE, rows: SIDE };
                product.forward(black_box(x), w, None, y);
            }
            Job::Pass { x, y } => Activation::Relu.forward(Some(black_box(x)), y),
            Job::Codec(job) => job.run()?,
            Job::Copy { direction, from, to } => {
                let stop = Stop::default();
                // Nobody asks it to stop.
                let _ = self.throttle.copy(&Gate::new(&stop), *direction, true, from, to);
            }
        }
        Ok(())
    }
}

impl CodecJob {
    fn new() -> Result<Self, codecs::Error> {
        let layout = Layout::new(Dtype::F32, &[FLOATS])?;
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.0, seed: 1 };
        let codec = codecs::codec(CodecId::Zvc)?;
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        Ok(Self {
            threads: threads.map_err(|_| codecs::Error::NoThreads { threads: 1 })?,
            tensor: recipe.bytes()?,
            payload: vec![1; codec.worst_case(&layout)],
            restored: vec![1; layout.bytes()],
            codec,
            layout,
        })
    }

    fn run(&mut self) -> Result<(), codecs::Error> {
        let Self { codec, threads, layout, tensor, payload, restored } = self;
        threads.install(|| {
            let length = codec.compress(TensorView::new(layout, tensor)?, payload)?;
            codec.decompress(&payload[..length], layout, restored)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::tests::link;
    use super::*;

    #[test]
    fn every_load_runs_alone_and_beside_all_others() {
        let loads = HostLoads::new(link(10_000_000_000)).expect("a thread");
        for &load in Load::ALL {
            for beside in [&[][..], Load::ALL] {
                assert!(loads.time(load, beside).expect("it runs") > Nanos::ZERO, "{load}");
            }
        }
        let Job::Codec(job) = &*loads.jobs[Load::Codec as usize].lock().unwrap() else {
            panic!("the order of jobs is that of loads")
        };
        assert_eq!(job.restored, job.tensor);
    }
}
