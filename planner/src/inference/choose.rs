//! Choosing how to pack a table, and what its lookups then cost.

use schema::{Bytes, BytesPerSec, Machine, Nanos};

use super::transfer::{
    BANDWIDTH_OF_FIGURE_7, SECTOR_BYTES, bulk, decompression, mean_sectors, mean_unaligned_sectors,
    nanos, one_by_one, zero_copy,
};
use super::{Access, Cache, GATHER, InferenceError, MOST};

/// A table in host memory, and how its rows are looked up.
#[derive(Debug, Clone)]
pub struct Lookups<'a> {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Rows that one lookup reads: those of a batch, of a layer, of the tokens that matter.
    pub rows_per_lookup: u64,
    /// Which rows.
    pub access: Access,
    /// Device memory for caching rows.
    pub cache: Bytes,
    /// How fast the host gathers rows into one buffer, for bulk copies; [`GATHER`] where it is not
    /// stated.
    pub gather: Option<BytesPerSec>,
    /// The machine.
    pub machine: &'a Machine,
}

/// What one way of packing makes of sampled rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// How many clusters have a Mask and Bitval of their own.
    pub clusters: u64,
    /// Bytes of Mask and Bitval of all clusters.
    pub metadata: Bytes,
    /// Bytes of each sampled row: those of an uncompressed row where it stays as it is.
    pub sizes: Vec<u64>,
}

/// Where packed rows lie in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Where they would lie uncompressed (section 5).
    InPlace,
    /// Back to back, each found by its offset, which is read over the link, too: where the table
    /// does not fit into host memory otherwise.
    Condensed,
}

/// How rows that are not cached reach the device (section 4.4), and what is packed (section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staging {
    /// The host copies row by row; nothing is packed.
    OneByOne,
    /// The host gathers rows and copies them at once; nothing is packed.
    Bulk,
    /// The device reads host memory itself, 128 bytes at a time from each row's begin on; nothing is
    /// packed.
    Unaligned,
    /// The same in aligned lines.
    ZeroCopy {
        /// Rows in host memory are packed: IBP(M).
        link: bool,
        /// Rows in the cache are packed: IBP(C).
        cache: bool,
    },
}

/// What a lookup waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The link.
    Link,
    /// The device: reading, decompressing and writing rows.
    Device,
}

/// What lookups cost in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Which.
    pub staging: Staging,
    /// Rows that the cache holds.
    pub cached_rows: u64,
    /// The share of rows looked up that are cached.
    pub hit_rate: f64,
    /// Bytes over the link for a mean lookup, whole sectors where the device reads.
    pub link_bytes: Bytes,
    /// Time of a mean lookup.
    pub time: Nanos,
    /// What takes this time.
    pub limit: Limit,
}

/// How to pack a table, and what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Which of the packings.
    pub packing: usize,
    /// Where packed rows lie in host memory.
    pub placement: Placement,
    /// Mean bytes of a row uncompressed over packed.
    pub ratio: f64,
    /// All ways: those without packing first, which there are only where the table fits into host
    /// memory as it is.
    pub predictions: Vec<Prediction>,
    /// The fastest of them; of those that are equally fast the one that moves least, or the first.
    pub best: usize,
}

/// What says of each row of a table whether it is packed: a bit.
pub fn row_mask_bytes(rows: u64) -> Bytes {
    Bytes(rows.div_ceil(8))
}

/// Chooses, of several packings, the one with which a lookup takes least time in its fastest way;
/// of those that take the same time the one that moves least, of those the one that packs rows
/// smallest, and of those the first.
///
/// A lookup takes as long as the link or the device, whichever takes longer: asynchronous reads
/// overlap decompression (section 4.3). The link carries the rows that are not cached, the device
/// handles all of them, in what figure 7 comes to on an A100 by the size of a row, and on another
/// device in proportion to the bandwidth of its memory.
///
/// # Errors
/// [`InferenceError`] where something is empty, cannot be, or does not fit into host memory.
pub fn choose(lookups: &Lookups<'_>, packings: &[Packing]) -> Result<Choice, InferenceError> {
    if lookups.rows == 0 || lookups.row_bytes == 0 || lookups.rows_per_lookup == 0 {
        return Err(InferenceError::Empty);
    }
    if lookups.cache > MOST {
        return Err(InferenceError::Cache(lookups.cache));
    }
    lookups.access.check(lookups.rows)?;
    let packed: Result<Vec<Packed>, _> = packings
        .iter()
        .enumerate()
        .map(|(index, packing)| lookups.packed(index, packing))
        .collect();
    let fastest = |predictions: &[Prediction]| {
        let key = |(_, of): &(usize, &Prediction)| (of.time, of.link_bytes);
        predictions.iter().enumerate().min_by_key(key).map(|(index, _)| index)
    };
    let cost = |(_, packed): &(usize, &Packed)| {
        let predictions = lookups.packed_ways(packed);
        let best =
            fastest(&predictions).map(|of| (predictions[of].time, predictions[of].link_bytes));
        // Numbers above zero are in the order of their bits.
        (best, packed.mean_bytes.to_bits())
    };
    let packed = packed?;
    let (packing, packed) =
        packed.iter().enumerate().min_by_key(cost).ok_or(InferenceError::NoPacking)?;
    let mut predictions = lookups.plain_ways(packed.placement);
    predictions.extend(lookups.packed_ways(packed));
    Ok(Choice {
        packing,
        placement: packed.placement,
        ratio: lookups.row_bytes as f64 / packed.mean_bytes,
        best: fastest(&predictions).unwrap_or(0),
        predictions,
    })
}

struct Packed {
    placement: Placement,
    mean_bytes: f64,
    /// Sectors that reading a row from host memory touches on average.
    mean_sectors: f64,
    /// The share of the rows that are compressed.
    compressed: f64,
    metadata: Bytes,
}

impl Lookups<'_> {
    fn packed(&self, index: usize, packing: &Packing) -> Result<Packed, InferenceError> {
        let sizes = &packing.sizes;
        if sizes.is_empty() || sizes.iter().any(|&size| size > self.row_bytes) {
            return Err(InferenceError::Sample(index));
        }
        let count = sizes.len() as f64;
        let mean =
            |of: &dyn Fn(u64) -> f64| sizes.iter().map(|&size| of(size)).sum::<f64>() / count;
        let mean_bytes = mean(&|size| size as f64);
        let available = self.machine.host.memory;
        let placement = if self.rows.saturating_mul(self.row_bytes) <= available.0 {
            Placement::InPlace
        } else {
            Placement::Condensed
        };
        let needed = (self.rows as f64 * (mean_bytes + 8.0)).ceil() as u64;
        if placement == Placement::Condensed && needed > available.0 {
            return Err(InferenceError::HostMemory { needed: Bytes(needed), available });
        }
        let mean_sectors = match placement {
            Placement::InPlace => mean(&|size| mean_sectors(self.row_bytes, size)),
            Placement::Condensed => 1.0 + mean(&|size| mean_sectors(packing.chunk_bytes, size)),
        };
        Ok(Packed {
            placement,
            mean_bytes,
            mean_sectors,
            compressed: mean(&|size| f64::from(u8::from(size < self.row_bytes))),
            metadata: packing.metadata,
        })
    }

    /// The ways without packing; none where the table has to be packed to fit into host memory.
    fn plain_ways(&self, placement: Placement) -> Vec<Prediction> {
        match placement {
            Placement::Condensed => Vec::new(),
            Placement::InPlace => vec![
                self.by_the_host(Staging::OneByOne),
                self.by_the_host(Staging::Bulk),
                self.unaligned(),
                self.zero_copy(None, false, false),
            ],
        }
    }

    fn packed_ways(&self, packed: &Packed) -> Vec<Prediction> {
        let ways = match packed.placement {
            Placement::InPlace => &[(true, false), (false, true), (true, true)][..],
            Placement::Condensed => &[(true, false), (true, true)],
        };
        ways.iter().map(|&(link, cache)| self.zero_copy(Some(packed), link, cache)).collect()
    }

    /// A way in which the host moves rows.
    fn by_the_host(&self, staging: Staging) -> Prediction {
        let (cached_rows, hit_rate) = self.cached(Bytes::ZERO, self.row_bytes as f64);
        let misses = self.rows_per_lookup as f64 * (1.0 - hit_rate);
        let bytes = misses * self.row_bytes as f64;
        let link = match staging {
            Staging::OneByOne => one_by_one(&self.machine.link, misses, self.row_bytes),
            _ => bulk(&self.machine.link, bytes, self.gather.unwrap_or(GATHER)),
        };
        self.prediction(staging, cached_rows, hit_rate, bytes, link, [0.0, 0.0])
    }

    fn unaligned(&self) -> Prediction {
        let (cached_rows, hit_rate) = self.cached(Bytes::ZERO, self.row_bytes as f64);
        let misses = self.rows_per_lookup as f64 * (1.0 - hit_rate);
        let sectors = misses * mean_unaligned_sectors(self.row_bytes, self.row_bytes);
        let time = zero_copy(&self.machine.link, sectors);
        let bytes = sectors * SECTOR_BYTES as f64;
        self.prediction(Staging::Unaligned, cached_rows, hit_rate, bytes, time, [0.0, 0.0])
    }

    fn zero_copy(&self, packed: Option<&Packed>, link: bool, cache: bool) -> Prediction {
        let on_link = packed.filter(|_| link);
        let in_cache = packed.filter(|_| cache);
        let metadata = on_link.or(in_cache).map_or(Bytes::ZERO, |packed| packed.metadata);
        // Of cached rows the map says it.
        let row_mask = on_link.map_or(Bytes::ZERO, |_| row_mask_bytes(self.rows));
        let row_bytes = in_cache.map_or(self.row_bytes as f64, |packed| packed.mean_bytes);
        let (cached_rows, hit_rate) = self.cached(metadata + row_mask, row_bytes);
        let misses = self.rows_per_lookup as f64 * (1.0 - hit_rate);
        let plain = mean_sectors(self.row_bytes, self.row_bytes);
        let sectors = misses * on_link.map_or(plain, |packed| packed.mean_sectors);
        let of = |packed: Option<&Packed>| packed.map_or(0.0, |packed| packed.compressed);
        let compressed = [of(in_cache), of(on_link)];
        let bytes = sectors * SECTOR_BYTES as f64;
        let time = zero_copy(&self.machine.link, sectors);
        let staging = Staging::ZeroCopy { link, cache };
        self.prediction(staging, cached_rows, hit_rate, bytes, time, compressed)
    }

    /// Rows that the cache holds where something else takes `fixed` of it, and its hit rate.
    fn cached(&self, fixed: Bytes, row_bytes: f64) -> (u64, f64) {
        let cached = Cache { bytes: self.cache, fixed }.rows(self.rows, row_bytes);
        (cached, self.access.hit_rate(self.rows, cached))
    }

    /// `compressed` is the share of hits, and of misses, that are decompressed.
    fn prediction(
        &self,
        staging: Staging,
        cached_rows: u64,
        hit_rate: f64,
        link_bytes: f64,
        link: Nanos,
        compressed: [f64; 2],
    ) -> Prediction {
        let rows = self.rows_per_lookup as f64;
        let decompressed = hit_rate * compressed[0] + (1.0 - hit_rate) * compressed[1];
        let bandwidth = self.machine.device.compute.memory_bandwidth.0 as f64 / 1e9;
        let packed = decompression(self.row_bytes) * BANDWIDTH_OF_FIGURE_7 / bandwidth;
        // What is not decompressed is read and written.
        let plain = 2.0 * self.row_bytes as f64 / bandwidth;
        let device = nanos(rows * (decompressed * packed + (1.0 - decompressed) * plain));
        Prediction {
            staging,
            cached_rows,
            hit_rate,
            link_bytes: Bytes(link_bytes.round() as u64),
            time: link.max(device),
            limit: if device > link { Limit::Device } else { Limit::Link },
        }
    }
}
