//! What it is that is explained, where its name is no network's.

use std::path::Path;

use profiler::import::{Figures, Format, ImportOptions, detect, import, unpack};
use schema::file::{read_bytes, read_text};
use schema::{Bytes, Document, Plan};

use crate::Result;
use crate::sources::{is_document, is_network};

/// What a name stands for.
pub enum Named {
    /// The history of an allocator.
    Snapshot(Box<Figures>),
    /// A profile, and what the model of the allocator reserves for its allocations, where it has any.
    Profile(Option<Bytes>),
    /// A plan.
    Plan(Box<Plan>),
    /// A network, or any other trace.
    Trace,
}

impl Named {
    /// Looks into what is called so.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if is_network(name) || !path.is_file() {
            return Ok(Self::Trace);
        }
        let bytes = read_bytes(path)?;
        let unpacked = unpack(&bytes, path)?;
        if is_document(&unpacked) {
            let plan = String::from_utf8_lossy(&unpacked[..unpacked.len().min(200)])
                .contains("\"tidegate/plan\"");
            return Ok(match plan {
                true => Self::Plan(Box::new(Plan::from_json(&read_text(path)?, path)?)),
                false => Self::Trace,
            });
        }
        let figures = |kind| {
            Ok::<_, crate::Error>(
                import(&bytes, path, Some(kind), &ImportOptions::default())?.figures,
            )
        };
        Ok(match detect(&unpacked) {
            Some(kind @ Format::MemorySnapshot) => Self::Snapshot(Box::new(figures(kind)?)),
            Some(kind @ Format::Kineto) => {
                Self::Profile(figures(kind)?.reserved_from_empty_bytes.map(Bytes))
            }
            _ => Self::Trace,
        })
    }
}
