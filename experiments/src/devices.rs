//! What there is of CUDA on this machine.

use std::fmt;
use std::path::PathBuf;

use reports::columns;
use runtime::cuda::{self, Library};
use serde::Serialize;

/// What there is of CUDA.
#[derive(Serialize)]
pub struct Devices {
    driver: Found,
    devices: Vec<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_devices: Option<String>,
    libraries: Vec<Found>,
    looked_in: Vec<String>,
}

#[derive(Serialize)]
struct Device {
    number: usize,
    name: String,
    memory_bytes: u64,
    capability: String,
}

#[derive(Serialize)]
struct Found {
    name: &'static str,
    file: Option<PathBuf>,
    version: Option<String>,
    /// What is wrong, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

impl Found {
    fn of(library: Library) -> Self {
        let name = library.name();
        match library.found() {
            Ok((file, version)) => {
                Self { name, file: Some(file), version: Some(version), missing: None }
            }
            Err(error) => {
                Self { name, file: None, version: None, missing: Some(error.to_string()) }
            }
        }
    }

    fn row(&self) -> Option<Vec<String>> {
        let version = self.version.clone()?;
        Some(vec![self.name.into(), version])
    }
}

/// Looks for devices and libraries.
pub fn devices() -> Devices {
    let (devices, no_devices) = match cuda::devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let device = |(number, device): (usize, cuda::DeviceFacts)| Device {
        number,
        name: device.name,
        memory_bytes: device.memory.0,
        capability: format!("{}.{}", device.capability.0, device.capability.1),
    };
    Devices {
        driver: Found::of(Library::Driver),
        devices: devices.into_iter().enumerate().map(device).collect(),
        no_devices,
        libraries: Library::ALL.map(Found::of).into(),
        looked_in: Library::places(),
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Device { number, name, memory_bytes, capability } in &self.devices {
            let memory = schema::Bytes(*memory_bytes);
            writeln!(f, "device {number}: {name}, {memory}, capability {capability}")?;
        }
        if let Some(why) = &self.no_devices {
            writeln!(f, "{why}")?;
        }
        let used = || [&self.driver].into_iter().chain(&self.libraries);
        let table = columns(&used().filter_map(Found::row).collect::<Vec<_>>());
        for (line, file) in table.lines().zip(used().filter_map(|found| found.file.as_ref())) {
            writeln!(f, "{line}  {}", file.display())?;
        }
        let missing = || self.libraries.iter().filter_map(|l| Some((l.name, l.missing.as_ref()?)));
        missing().try_for_each(|(name, missing)| writeln!(f, "{name}: {missing}"))?;
        match missing().next() {
            Some(_) => writeln!(f, "looked in: {}", self.looked_in.join(", ")),
            None => Ok(()),
        }
    }
}
