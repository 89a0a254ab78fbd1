//! What a payload in memory is known by.

use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

/// A payload's length and its checksum (XXH3-64, seed 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    bytes: usize,
    hash: u64,
}

impl Seal {
    /// The seal of a payload.
    pub fn of(payload: &[u8]) -> Self {
        Self { bytes: payload.len(), hash: xxh3_64(payload) }
    }

    /// Bytes of the payload.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The payload that lies at the front of `memory`.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is damaged or cut off.
    pub fn open<'a>(&self, memory: &'a [u8]) -> Result<&'a [u8], Error> {
        let payload = memory.get(..self.bytes);
        let payload = payload.ok_or(Error::Damaged { reason: "it is cut off" })?;
        match xxh3_64(payload) == self.hash {
            true => Ok(payload),
            false => Err(Error::Damaged { reason: "its checksum does not fit" }),
        }
    }
}
