//! NVIDIA's codecs beside ours, where its library is there.

use std::fmt;

use codecs::{Layout, TensorView};
use runtime::cuda::{CudaCodecs, NVCOMP_CHUNK_BYTES, Nvcomp, NvcompFormat};

use super::kernels::{KernelSpeed, row};
use super::{Measured, table};
use crate::Result;

/// What nvCOMP makes of tensors.
#[derive(serde::Serialize)]
pub struct OfNvcomp {
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why it is not compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// Bytes of a chunk; each is compressed alone.
    chunk_bytes: usize,
    /// Each of its formats and element types.
    codecs: Vec<KernelSpeed>,
}

/// Measures it, unless it is not there.
pub struct Comparison {
    library: std::result::Result<Nvcomp, String>,
    rows: Vec<KernelSpeed>,
}

impl Comparison {
    /// Loads the library, or keeps why not.
    pub fn new() -> Self {
        Self { library: Nvcomp::open().map_err(|error| error.to_string()), rows: Vec::new() }
    }

    /// Times its formats on a tensor, beside copies of so many bytes per second.
    pub fn time(
        &mut self,
        device: &mut CudaCodecs,
        layout: &Layout,
        tensor: TensorView<'_>,
        runs: u32,
        copied: f64,
    ) -> Result<()> {
        let Ok(library) = &self.library else { return Ok(()) };
        for format in NvcompFormat::ALL {
            let times = device.time_nvcomp(library, format, tensor, runs)?;
            self.rows.push(row(format.to_string(), layout, &times, copied));
        }
        Ok(())
    }

    /// What there is to say of it.
    pub fn said(self) -> OfNvcomp {
        OfNvcomp {
            version: self.library.as_ref().ok().map(Nvcomp::version),
            missing: self.library.err(),
            chunk_bytes: NVCOMP_CHUNK_BYTES,
            codecs: self.rows,
        }
    }
}

impl fmt::Display for OfNvcomp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            Some(why) => writeln!(f, "not compared with nvCOMP: {why}"),
            None => {
                let version = self.version.as_deref().unwrap_or_default();
                let chunk = self.chunk_bytes >> 10;
                let name = format!("nvCOMP {version}");
                let mut head = KernelSpeed::HEAD.to_vec();
                head[0] = &name;
                f.write_str(&table(&head, &self.codecs))?;
                writeln!(f, "in chunks of {chunk} KiB; every tensor comes back as it was")
            }
        }
    }
}
