//! The machine that this process runs on, measured.

use planner::{Monitor, Progress};
use runtime::cuda::{CudaFacts, CudaLoads, CudaOptions, CudaProbe};
use runtime::device::Load;
use runtime::device::host::{HostLoads, LinkProbe};
use schema::{Bytes, Link, Machine};

use crate::device::Target;
use crate::error::{MeasureError, Result};
use crate::measure::{
    Contention, Copies, LinkCurve, Loads, cuda_machine, host_machine, measure_contention,
    measure_host, measure_link, memory_of_this_machine,
};
use crate::profile::{Measuring, SOURCE};

/// Sizes of the copies that are timed over a link that is emulated, in KiB.
const COPIES: [u64; 6] = [4, 32, 256, 1 << 10, 4 << 10, 16 << 10];

/// The same for CUDA; a device with little memory has fewer.
const CUDA_COPIES: [u64; 10] =
    [4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Sizes of the tensors that codecs are sampled on: those of networks that a processor trains.
const TENSORS: [u64; 6] = [256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10];

fn kib(amount: u64) -> Bytes {
    Bytes(amount << 10)
}

/// No tensor that is sampled is smaller.
const LEAST_TENSOR: Bytes = Bytes(4 << 10);

/// The same for a GPU: the largest, beyond which times are lines over sizes and the processor's bytes, which
/// kernels are held to, take long to make; and how many sizes there are, each a quarter of the next.
const CUDA_TENSOR: Bytes = Bytes(64 << 20);
const CUDA_SIZES: usize = 5;

/// The same for CUDA: what a codec makes of a tensor and what it works in must fit, too.
fn cuda_tensors(free: Bytes) -> Vec<Bytes> {
    let quarter = |size: &Bytes| Some(Bytes(size.0 / 4)).filter(|size| size.0 >= LEAST_TENSOR.0);
    let all = std::iter::successors(Some(CUDA_TENSOR), quarter);
    let mut sizes: Vec<_> = all.filter(|size| size.0 <= free.0 / 16).take(CUDA_SIZES).collect();
    sizes.reverse();
    sizes
}

/// A machine that was measured.
pub struct MeasuredMachine {
    /// The machine.
    pub machine: Machine,
    /// The link's curve.
    pub link: LinkCurve,
    /// How much lanes slow each other.
    pub contention: Contention,
    /// Sizes of tensors that codecs are to be sampled on.
    pub tensors: Vec<Bytes>,
}

/// Measures the machine.
///
/// # Errors
/// If a copy or a load fails.
pub fn measure_machine(how: &Measuring, monitor: &dyn Monitor) -> Result<MeasuredMachine> {
    let memory = memory_of_this_machine();
    let repeats = how.repeats.min(5);
    match &how.target {
        Target::Host(_) => {
            let sizes = COPIES.map(kib);
            let mut probe = LinkProbe::new(how.link.clone(), sizes[sizes.len() - 1]);
            let link = link_of(&mut probe, &how.link.name, &sizes, repeats, monitor)?;
            let contention =
                contention_of(&mut HostLoads::new(how.link.clone())?, repeats, monitor)?;
            let machine =
                host_machine(link.link.clone(), measure_host(), &contention, memory, SOURCE);
            Ok(MeasuredMachine { machine, link, contention, tensors: TENSORS.map(kib).to_vec() })
        }
        Target::Cuda(options) => {
            let left = || runtime::memory::left().unwrap_or(Bytes(memory.0 / 2));
            let (link, facts) = cuda_link(options, repeats, monitor)?;
            let contention = contention_of(&mut CudaLoads::open(options)?, repeats, monitor)?;
            let machine = cuda_machine(link.link.clone(), &facts, &contention, left(), SOURCE);
            Ok(MeasuredMachine { machine, link, contention, tensors: cuda_tensors(facts.free) })
        }
    }
}

/// Measures the link of a CUDA device.
///
/// # Errors
/// If a copy fails.
pub fn measure_cuda_link(options: &CudaOptions, monitor: &dyn Monitor) -> Result<Link> {
    Ok(cuda_link(options, 5, monitor)?.0.link)
}

fn cuda_link(
    options: &CudaOptions,
    repeats: usize,
    monitor: &dyn Monitor,
) -> Result<(LinkCurve, CudaFacts)> {
    let left = runtime::memory::left().unwrap_or(Bytes(memory_of_this_machine().0 / 2));
    let sizes = CUDA_COPIES.map(kib);
    let most = sizes[sizes.len() - 1].min(Bytes(left.0 / 8));
    let mut probe = CudaProbe::open(options.ordinal, most)?;
    let facts = probe.facts()?;
    let fits = sizes.into_iter().filter(|size| *size <= probe.largest());
    let sizes: Vec<Bytes> = fits.collect();
    Ok((link_of(&mut probe, "as measured", &sizes, repeats, monitor)?, facts))
}

fn contention_of(
    loads: &mut impl Loads,
    repeats: usize,
    monitor: &dyn Monitor,
) -> Result<Contention> {
    let steps = Steps::new("contention", Load::ALL.len(), monitor);
    steps.finish(|step| measure_contention(loads, repeats, step))
}

fn link_of(
    copies: &mut impl Copies,
    name: &str,
    sizes: &[Bytes],
    repeats: usize,
    monitor: &dyn Monitor,
) -> Result<LinkCurve> {
    let steps = Steps::new("link", 2 * sizes.len(), monitor);
    steps.finish(|step| measure_link(copies, name, sizes, repeats, step))
}

struct Steps<'a> {
    progress: Progress,
    monitor: &'a dyn Monitor,
    proceeds: bool,
}

impl<'a> Steps<'a> {
    fn new(phase: &'static str, of: usize, monitor: &'a dyn Monitor) -> Self {
        Self { progress: Progress { phase, done: 0, of: of as u64 }, monitor, proceeds: true }
    }

    /// Does work that tells of each step. Short as it is, it goes on to its end when whoever waits gives
    /// up.
    fn finish<T>(mut self, work: impl FnOnce(&mut dyn FnMut()) -> Result<T>) -> Result<T> {
        let done = work(&mut || {
            self.progress.done += 1;
            self.proceeds &= self.monitor.proceed(self.progress);
        });
        if self.proceeds { done } else { Err(MeasureError::Interrupted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_are_sampled_fit_the_device() {
        let [mib, kib] = [|n: u64| Bytes(n << 20), |n: u64| Bytes(n << 10)];
        assert_eq!(cuda_tensors(mib(80_000)), [kib(256), mib(1), mib(4), mib(16), mib(64)]);
        assert_eq!(cuda_tensors(mib(8)), [kib(4), kib(16), kib(64), kib(256)]);
    }
}
