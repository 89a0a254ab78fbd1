//! Traces, machines and networks by name: bundled ones, or files.

use std::path::{Path, PathBuf};

use networks::suggest::instead;
use networks::{Network, NetworkOptions};
use profiler::import::{ImportOptions, InPlaceOps};
use schema::file::{FileError, read_bytes, read_text};
use schema::{CodecModels, Document, Machine, Trace, Untimed};

use crate::{Error, Result};

/// Whether a name means the same trace or network wherever it is given.
pub fn is_bundled(name: &str) -> bool {
    scenarios::traces().any(|trace| trace == name)
        || name.starts_with(FAMILY)
        || networks::networks().any(|network| network.name == name)
}

/// What stands before the name of a family of made-up traces.
const FAMILY: &str = "family:";

/// A bundled trace, a trace file, a recording, or a made-up trace such as `family:u-shaped:seed=7`.
/// Where ops of a file say no times, these are modelled for the machine.
///
/// # Errors
/// If there is none of this name, it cannot be read or has no tensors, or times lack and there is no machine.
pub fn read_trace(name: &str, in_place: InPlaceOps, machine: Option<&Machine>) -> Result<Trace> {
    let trace = read_any_trace(name, in_place, machine)?;
    // Recordings may have been made without any.
    if trace.tensors.is_empty() { Err(Error::NoTensors(name.into())) } else { Ok(trace) }
}

fn read_any_trace(name: &str, in_place: InPlaceOps, machine: Option<&Machine>) -> Result<Trace> {
    if scenarios::traces().any(|bundled| bundled == name) {
        return Ok(scenarios::trace(name)?);
    }
    if let Some(of) = name.strip_prefix(FAMILY) {
        return Ok(planner::families::family(of)?);
    }
    let path = Path::new(name);
    if name != "-" && !path.exists() {
        let networks = networks::networks().map(|network| network.name);
        return Err(Error::NoTrace(
            name.into(),
            instead(name, scenarios::traces().chain(networks)),
        ));
    }
    let bytes = read_bytes(path)?;
    let unpacked = profiler::import::unpack(&bytes, path)?;
    match profiler::import::detect(&unpacked) {
        Some(format) if !is_document(&unpacked) => {
            let options = ImportOptions { in_place, ..ImportOptions::default() };
            Ok(profiler::import::import_trace(&unpacked, path, Some(format), &options)?)
        }
        _ => {
            let text = std::str::from_utf8(&unpacked).map_err(|why| FileError::Io {
                verb: "read",
                path: path.to_path_buf(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, why),
            })?;
            let Some(machine) = machine else { return Ok(Trace::from_json(text, path)?) };
            let untimed = Untimed::from_json(text, path)?;
            Ok(scenarios::modelled_times(untimed, machine)?)
        }
    }
}

/// A trace document may mention anything in its notes; its beginning tells it apart.
pub(crate) fn is_document(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).contains("\"tidegate/")
}

/// A bundled machine, perhaps with another link, or a file.
///
/// # Errors
/// If there is none of this name, or it cannot be read.
pub fn read_machine(name: &str) -> Result<Machine> {
    let of_file =
        |(file, _): &(&str, &str)| [".json", ".toml"].iter().any(|end| file.ends_with(end));
    if let Some((file, others)) = name.split_once('+').filter(of_file) {
        return scenarios::machine_with(read_machine(file)?, others).map_err(Error::Machine);
    }
    let path = PathBuf::from(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Ok(scenarios::machine_from_toml(&read_text(&path)?, &path)?),
        Some("json") => Ok(Machine::read(&path)?),
        _ => scenarios::machine(name).map_err(Error::Machine),
    }
}

/// The name of a machine or link that so many GPUs share, with that network between them.
pub fn with_links(name: &str, gpus: Option<u32>, network: Option<&str>) -> String {
    let shared = gpus.map(|gpus| format!("+share-{gpus}")).unwrap_or_default();
    let network = network.map(|network| format!("+net-{network}")).unwrap_or_default();
    format!("{name}{shared}{network}")
}

/// Whether a name is that of a bundled network, or of a file that describes one.
pub fn is_network(name: &str) -> bool {
    networks::networks().any(|network| network.name == name) || is_file(name)
}

/// Refuses what is no network.
///
/// # Errors
/// With what was likely meant.
pub fn must_be_network(name: &str) -> Result<()> {
    if is_network(name) {
        return Ok(());
    }
    let meant = instead(name, networks::networks().map(|network| network.name));
    Err(Error::NoNetwork(name.into(), meant))
}

/// Whether a name is that of a file that describes a network.
pub(crate) fn is_file(name: &str) -> bool {
    matches!(extension(name), Some("toml" | "onnx"))
}

/// A bundled network, or one from a TOML or ONNX file.
///
/// # Errors
/// If there is none of this name, or it cannot be read.
pub fn read_network(name: &str, options: &NetworkOptions) -> Result<Network> {
    let path = Path::new(name);
    Ok(match extension(name) {
        Some("toml") => networks::network_from_toml(&read_text(path)?, path, options)?,
        Some("onnx") => networks::network_from_onnx(&read_bytes(path)?, path, options)?,
        _ => networks::network(name, options)?,
    })
}

fn extension(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|extension| extension.to_str())
}

/// Models of the codecs of a machine's device, at a share of the speed that they state, and of its host: those of two
/// files, or where there is none, those that come with tidegate.
///
/// # Errors
/// If a file is no such document.
pub fn read_models(
    files: [Option<&Path>; 2],
    speed: Option<f64>,
    machine: &Machine,
) -> Result<(CodecModels, CodecModels)> {
    let [device, host] = files;
    let read = |file: Option<&Path>| file.map(CodecModels::read).transpose();
    let models = read(device)?.unwrap_or_else(|| scenarios::codec_models(machine));
    let models = speed.map_or(models.clone(), |share| models.at_speed(share));
    Ok((models, read(host)?.unwrap_or_else(scenarios::host_codec_models)))
}
