//! Lookups in a table in host memory, by a kernel that reads it over the link: timed, and held to
//! the bytes of the table.

use codecs::CodecId;
use codecs::ibp::Table;
use codecs::kernels::{self, TableArgument};
use schema::{Bytes, Direction, Nanos};

use super::codec_runs::{CodecRunError, CudaCodecs};
use super::driver::{DeviceMemory, Pinned};

const NOTHING_SAID: u64 = u64::MAX;

impl CudaCodecs {
    /// Times lookups of rows by their numbers: runs that count, after one that does not. The rows
    /// are compared with those that the table reads. The device must have been opened with an IBP
    /// codec.
    ///
    /// # Errors
    /// [`CodecRunError`]: also where a byte differs, or there is no such row.
    pub fn time_lookups(
        &mut self,
        table: &Table,
        numbers: &[u64],
        runs: u32,
    ) -> Result<Vec<Nanos>, CodecRunError> {
        let parts = table.parts();
        let launch = kernels::gather(&parts, numbers.len() as u64, self.blocks());
        let memory = |bytes: usize| {
            DeviceMemory::new(&self.context, "a table's lookups", Bytes(bytes as u64))
        };
        // Pinned memory begins at a page.
        let mut rows = Pinned::new(&self.context, Bytes(parts.rows.len() as u64))?;
        rows.write(0, &parts.rows);
        let (mut ends, mut metadata) =
            (memory(8 * parts.ends.len())?, memory(parts.metadata.len())?);
        let (mut clusters, mut looked_up) =
            (memory(4 * parts.clusters.len())?, memory(8 * numbers.len())?);
        let bytes = numbers.len() * parts.row_bytes;
        let (target, mut status) = (memory(bytes)?, memory(8)?);
        ends.write(0, parts.ends)?;
        metadata.write(0, &parts.metadata)?;
        clusters.write(0, parts.clusters)?;
        looked_up.write(0, numbers)?;
        status.write(0, &[NOTHING_SAID])?;
        let launch = self.kernels.prepare(&launch, |argument| match *argument {
            TableArgument::Rows => rows.address(0, 0),
            TableArgument::Ends => ends.address(0, 0),
            TableArgument::Metadata => metadata.address(0, 0),
            TableArgument::Clusters => clusters.address(0, 0),
            TableArgument::Numbers => looked_up.address(0, 0),
            TableArgument::Target => target.address(0, 0),
            TableArgument::Status => status.address(0, 8),
            TableArgument::Number(number) => number,
        })?;
        let mut times = Vec::new();
        for run in 0..=runs {
            let took = self.timed(|stream| stream.launch(&launch))?;
            times.extend((run > 0).then_some(took));
        }
        let (mut said, mut found) = ([0u64], vec![0u8; bytes]);
        status.read(0, &mut said)?;
        target.read(0, &mut found)?;
        let codec = CodecId::Ibp { chunk: parts.chunk };
        if said[0] != NOTHING_SAID {
            return Err(CodecRunError::Refused { codec, what: "look up", block: said[0] });
        }
        let mut expected = vec![0; parts.row_bytes];
        for (index, (number, found)) in
            numbers.iter().zip(found.chunks_exact(parts.row_bytes)).enumerate()
        {
            let read = table.read(usize::try_from(*number).unwrap_or(usize::MAX), &mut expected);
            if read.is_err() || found != expected {
                let at = index * parts.row_bytes;
                return Err(CodecRunError::OtherBytes { codec, what: "look up", at });
            }
        }
        Ok(times)
    }

    /// How long one copy of so many bytes from pinned memory takes: what lookups are compared with.
    ///
    /// # Errors
    /// If the driver fails, or there is too little memory.
    pub fn time_copies_in(&mut self, bytes: Bytes, runs: u32) -> Result<Vec<Nanos>, CodecRunError> {
        let device = DeviceMemory::new(&self.context, "copies", bytes)?;
        let host = Pinned::new(&self.context, bytes)?;
        let mut times = Vec::new();
        for run in 0..=runs {
            let took = self
                .timed(|stream| stream.copy(Direction::H2d, (&device, 0), (&host, 0), bytes.0))?;
            times.extend((run > 0).then_some(took));
        }
        Ok(times)
    }
}
