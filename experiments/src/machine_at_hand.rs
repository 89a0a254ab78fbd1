//! A machine's file for the machine at hand, with a line for each figure that may be stated.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use planner::Monitor;
use profiler::Kind;
use profiler::machine::measure_cuda_link;
use profiler::measure::memory_of_this_machine;
use runtime::cuda::{CudaOptions, DeviceFacts, devices};
use schema::{Bytes, BytesPerSec, Machine};

use crate::sources::read_machine;
use crate::{Error, Result};

/// The text of the file. `how` opens a CUDA device, to measure its link; `like` is the machine whose figures hold
/// where the file states none, where it is not to be the one that is most like that device.
///
/// # Errors
/// If there is neither a device nor `like`, there is no such machine, or measuring is interrupted.
pub fn machine_file(
    like: Option<&str>,
    how: &CudaOptions,
    monitor: &dyn Monitor,
) -> Result<String> {
    let device = devices().ok().and_then(|devices| devices.into_iter().next());
    let base = match (like, device.as_ref().and_then(most_like)) {
        (Some(name), _) => read_machine(name)?,
        (None, Some(machine)) => machine,
        (None, None) => return Err(Error::NoMachineLike(device.map(|device| device.name))),
    };
    let link = match device.as_ref().map(|_| measure_cuda_link(how, monitor)) {
        Some(Err(error)) if error.kind() == Kind::Interrupted => return Err(error.into()),
        measured => measured.and_then(|measured| measured.ok()),
    };
    let host = memory_of_this_machine();
    let speed = |curve: &schema::Bandwidth| {
        format!("\"{:.1}GB/s\"", BytesPerSec(curve.at(LARGE).round() as u64).as_gb_per_s())
    };
    let bytes = |bytes: Bytes| format!("\"{}B\"", bytes.0);
    let flops = |flops: u64| format!("\"{:.1}TFLOPS\"", flops as f64 / 1e12);
    let (compute, own) = (&base.device.compute, link.as_ref().unwrap_or(&base.link));
    let (driver, measured) = (device.as_ref().map(|_| DRIVER), link.as_ref().map(|_| MEASURED));
    let (name, memory) = device.as_ref().map_or_else(
        || (base.device.name.clone(), base.device.memory),
        |device| (device.name.clone(), device.memory),
    );
    let figures = [
        ("device.name", format!("{name:?}"), driver, "the product"),
        ("device.memory", bytes(memory), driver, "all of its memory"),
        (
            "device.reserved",
            bytes(base.device.reserved),
            None,
            "what driver and framework keep of it",
        ),
        ("device.compute.f32_flops", flops(compute.f32_flops), None, "peak, without matrix units"),
        ("device.compute.f16_flops", flops(compute.f16_flops), None, "peak, with matrix units"),
        (
            "device.compute.memory_bandwidth",
            format!("\"{:.0}GB/s\"", compute.memory_bandwidth.as_gb_per_s()),
            None,
            "of device memory",
        ),
        ("link.d2h", speed(&own.d2h), measured, "bandwidth of large copies to the host"),
        ("link.h2d", speed(&own.h2d), measured, "and from it"),
        (
            "link.latency",
            format!("\"{}ns\"", own.latency.0),
            measured,
            "of each copy, whatever its size",
        ),
        ("host.memory", bytes(host), Some(SYSTEM), "room for what leaves the device"),
    ];
    let mut text = format!(
        "# A machine, as --machine takes it. What is not stated is as of {0}; what is commented out is what\n\
         # that states: take the # away to state it otherwise.\n\ninherits = \"{0}\"\n",
        like.unwrap_or(&base.name)
    );
    let mut table = "";
    for (figure, value, source, what) in &figures {
        let (of, key) = figure.rsplit_once('.').unwrap_or(("", figure));
        if of != table {
            text += &format!("\n[{of}]\n");
            table = of;
        }
        let mark = if source.is_some() { "" } else { "# " };
        text += &format!("# {what}\n{mark}{key} = {value}\n");
    }
    text += "\n# Where each figure that is stated comes from.\n[sources]\n";
    for (figure, _, source, _) in &figures {
        let source = source.filter(|_| *figure != "device.name");
        text += &source.map_or(String::new(), |source| format!("{figure} = \"{source}\"\n"));
    }
    // What it says can be read.
    scenarios::machine_from_toml(&text, Path::new("machine.toml"))?;
    Ok(text)
}

/// The copy whose bandwidth stands for a link's.
const LARGE: Bytes = Bytes(256 << 20);

const DRIVER: &str = "as the driver says";
const MEASURED: &str = "measured by tidegate init";
const SYSTEM: &str = "as the operating system says";

/// The bundled machine whose device has most words of its name in common, a model's among them, and of these
/// about as much memory.
pub fn most_like(device: &DeviceFacts) -> Option<Machine> {
    let words = |name: &str| -> BTreeSet<String> {
        name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect()
    };
    let of = words(&device.name);
    let is_model = |word: &&String| {
        word.contains(|c: char| c.is_ascii_digit())
            && !word.ends_with("gb")
            && !word.starts_with("hbm")
    };
    let alike = scenarios::machines().filter_map(|machine| {
        let of_machine = words(&machine.device.name);
        let common: Vec<&String> = of.intersection(&of_machine).collect();
        let has_model = common.iter().any(&is_model);
        let memory = machine.device.memory.0.abs_diff(device.memory.0);
        has_model.then_some(((Reverse(common.len()), memory, machine.name.clone()), machine))
    });
    alike.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, machine)| machine)
}
