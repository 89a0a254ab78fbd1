//! `tidegate list devices`

use std::path::PathBuf;

use reports::columns;
use runtime::cuda::{self, Library};

use crate::exit::Result;
use crate::output::{Format, print, print_json};

/// What there is of CUDA.
#[derive(serde::Serialize)]
struct Here {
    driver: Found,
    devices: Vec<Device>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_devices: Option<String>,
    libraries: Vec<Found>,
    looked_in: Vec<String>,
}

#[derive(serde::Serialize)]
struct Device {
    number: usize,
    name: String,
    memory_bytes: u64,
    capability: String,
}

#[derive(serde::Serialize)]
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

/// Lists devices and libraries.
pub fn list(format: Format) -> Result {
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
    let here = Here {
        driver: Found::of(Library::Driver),
        devices: devices.into_iter().enumerate().map(device).collect(),
        no_devices,
        libraries: Library::ALL.map(Found::of).into(),
        looked_in: Library::places(),
    };
    match format {
        Format::Json => print_json(&here),
        Format::Text => print(text(&here)),
    }
}

fn text(here: &Here) -> String {
    let mut text = String::new();
    for Device { number, name, memory_bytes, capability } in &here.devices {
        let memory = schema::Bytes(*memory_bytes);
        text += &format!("device {number}: {name}, {memory}, capability {capability}\n");
    }
    if let Some(why) = &here.no_devices {
        text += &format!("{why}\n");
    }
    let used = || [&here.driver].into_iter().chain(&here.libraries);
    let table = columns(&used().filter_map(Found::row).collect::<Vec<_>>());
    for (line, file) in table.lines().zip(used().filter_map(|found| found.file.as_ref())) {
        text += &format!("{line}  {}\n", file.display());
    }
    for found in &here.libraries {
        if let Some(missing) = &found.missing {
            text += &format!("{}: {missing}\n", found.name);
        }
    }
    if here.libraries.iter().any(|found| found.missing.is_some()) {
        text += &format!("looked in: {}\n", here.looked_in.join(", "));
    }
    text
}
