//! A compressed table.

use rayon::prelude::*;

use super::{ChunkSize, IbpError, MAX_CLUSTERS, Metadata, RowCoder, Rows, cluster_index_bytes};

/// Where compressed rows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Each row where it would lie uncompressed (section 5, "in-place compression"): nothing but
    /// its number is needed to find it, and moving it takes fewer bytes, but the table is as large
    /// as ever.
    InPlace,
    /// Back to back, with an offset for each (section 5, "Cache compression"): saves memory.
    Condensed,
}

/// What a compressed table takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Uncompressed bytes.
    pub uncompressed: u64,
    /// Bytes of all rows, compressed where that is smaller: what reading each of them once moves.
    pub rows: u64,
    /// The bit for each row that says whether it is compressed (section 5).
    pub row_mask: u64,
    /// Mask and Bitval of all clusters.
    pub metadata: u64,
    /// Each row's cluster where there are several, and its offset where rows lie back to back.
    pub index: u64,
}

impl Sizes {
    /// Uncompressed bytes over those of the rows: the paper's compression ratio.
    pub fn ratio(&self) -> f64 {
        self.uncompressed as f64 / self.rows.max(1) as f64
    }
}

/// A table of which each row can be read by itself, and to which rows can be added.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) row_bytes: usize,
    pub(super) placement: Placement,
    pub(super) coders: Vec<RowCoder>,
    /// Where each row ends; where rows lie in place, its compressed bytes do.
    pub(super) ends: Vec<u64>,
    /// A bit for each row, the first lowest: 1 for a compressed one.
    row_mask: Vec<u8>,
    /// Each row's coder; empty where there is one only.
    pub(super) cluster_of: Vec<u32>,
    pub(super) data: Vec<u8>,
}

impl Table {
    /// A table without rows whose rows will be compressed with this metadata (of one cluster,
    /// unless there are several).
    ///
    /// # Errors
    /// [`IbpError::ClusterCount`] without metadata or with too much of it;
    /// [`IbpError::RowBytes`] unless a row is a whole number of chunks;
    /// [`IbpError::RowBuffer`] where one cluster's rows are of another size.
    pub fn new(
        clusters: Vec<Metadata>,
        chunk: ChunkSize,
        placement: Placement,
    ) -> Result<Self, IbpError> {
        let count = clusters.len();
        let row_bytes = clusters.first().map(Metadata::row_bytes);
        let row_bytes = row_bytes.filter(|_| count <= MAX_CLUSTERS);
        let expected = row_bytes.ok_or(IbpError::ClusterCount(count))?;
        if let Some(other) = clusters.iter().find(|other| other.row_bytes() != expected) {
            return Err(IbpError::RowBuffer { expected, actual: other.row_bytes() });
        }
        let coders = clusters.into_iter().map(|metadata| RowCoder::new(metadata, chunk));
        Ok(Self {
            row_bytes: expected,
            placement,
            coders: coders.collect::<Result<_, _>>()?,
            ends: Vec::new(),
            row_mask: Vec::new(),
            cluster_of: Vec::new(),
            data: Vec::new(),
        })
    }

    /// Adds rows, compressed with the metadata that the table has: rows that arrive later need no
    /// new one (section 6.1). Each goes to the cluster with which it becomes smallest.
    ///
    /// # Errors
    /// [`IbpError::RowBuffer`] where the rows are of another size.
    pub fn append(&mut self, rows: Rows<'_>) -> Result<(), IbpError> {
        let (expected, actual) = (self.row_bytes, rows.row_bytes());
        if expected != actual {
            return Err(IbpError::RowBuffer { expected, actual });
        }
        // Rows are compressed side by side and laid down in order.
        let compressed: Vec<(u32, Vec<u8>)> = (rows.bytes().par_chunks_exact(actual))
            .map(|row| {
                let cluster = self.best_cluster(row);
                let mut bytes = Vec::new();
                self.coders[cluster].compress(row, &mut bytes);
                (cluster as u32, bytes)
            })
            .collect();
        for (row, (cluster, bytes)) in rows.iter().zip(compressed) {
            self.push(row, cluster, &bytes);
        }
        Ok(())
    }

    /// The cluster that leaves most out of a row; the first of those that leave out the same.
    fn best_cluster(&self, row: &[u8]) -> usize {
        if self.coders.len() == 1 {
            return 0;
        }
        let saved = self.coders.iter().map(|coder| coder.invariant_bits(row)).enumerate();
        saved.rev().max_by_key(|&(_, bits)| bits).map_or(0, |(cluster, _)| cluster)
    }

    /// Adds a row of which `compressed` is the compressed form, empty where there is none.
    fn push(&mut self, row: &[u8], cluster: u32, compressed: &[u8]) {
        let index = self.ends.len();
        if index.is_multiple_of(8) {
            self.row_mask.push(0);
        }
        self.row_mask[index / 8] |= u8::from(!compressed.is_empty()) << (index % 8);
        if self.coders.len() > 1 {
            self.cluster_of.push(cluster);
        }
        self.data.extend_from_slice(if compressed.is_empty() { row } else { compressed });
        self.ends.push(self.data.len() as u64);
        if self.placement == Placement::InPlace {
            self.data.resize((index + 1) * self.row_bytes, 0);
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of an uncompressed row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Whether the row is compressed, as the row mask says. Nothing where there is no such row.
    pub fn is_compressed(&self, row: usize) -> Option<bool> {
        (row < self.len()).then(|| self.row_mask[row / 8] >> (row % 8) & 1 == 1)
    }

    /// The bytes that reading the row moves. Nothing where there is no such row.
    pub fn stored(&self, row: usize) -> Option<&[u8]> {
        let end = *self.ends.get(row)? as usize;
        let begin = match (self.placement, row.checked_sub(1)) {
            (Placement::InPlace, _) => row * self.row_bytes,
            (Placement::Condensed, None) => 0,
            (Placement::Condensed, Some(before)) => self.ends[before] as usize,
        };
        Some(&self.data[begin..end])
    }

    /// Decompresses one row.
    ///
    /// # Errors
    /// [`IbpError::NoSuchRow`]; [`IbpError::RowBuffer`] unless `out` has a row's size.
    pub fn read(&self, row: usize, out: &mut [u8]) -> Result<(), IbpError> {
        let no_such_row = IbpError::NoSuchRow { row, rows: self.len() };
        let stored = self.stored(row).ok_or(no_such_row)?;
        if self.is_compressed(row) == Some(true) {
            let cluster = self.cluster_of.get(row).map_or(0, |&cluster| cluster as usize);
            return self.coders[cluster].decompress(stored, out).map(|_| ());
        }
        if out.len() != stored.len() {
            return Err(IbpError::RowBuffer { expected: stored.len(), actual: out.len() });
        }
        out.copy_from_slice(stored);
        Ok(())
    }

    /// What it takes.
    pub fn sizes(&self) -> Sizes {
        let rows = self.len() as u64;
        let stored = (0..self.len()).filter_map(|row| self.stored(row));
        let offsets = if self.placement == Placement::Condensed { rows * 8 } else { 0 };
        Sizes {
            uncompressed: rows * self.row_bytes as u64,
            rows: stored.map(|row| row.len() as u64).sum(),
            row_mask: self.row_mask.len() as u64,
            metadata: self.coders.iter().map(|coder| coder.metadata().bytes() as u64).sum(),
            index: offsets + cluster_index_bytes(self.coders.len(), rows),
        }
    }
}
