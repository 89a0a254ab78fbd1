//! How many rows a cache on the device holds.

use schema::Bytes;

/// Bytes that a cached row takes besides its own: its entry in the hash map that finds it. The
/// paper states the 64 bits of the place: a slab of 3 bits, an offset of 40, a bit that says whether the
/// row is compressed, and 20 to spare (section 5, "Cache compression"). Of the rest, the row's number and the
/// map's free entries, it says nothing: 16 bytes are fitted to its table 7, whose numbers of rows they give to 0.9 %
/// (of 8 and 16 bytes in all, they would be up to 4.8 and 2.3 % too many). The cache that it extends has a number of 4
/// bytes and two entries for each row (`CacheController::InitializeMap` of Legion's authors' code), which comes to the
/// same 24 bytes if nothing pads an entry.
pub const MAP_ENTRY_BYTES: u64 = 8 + 16;

/// The largest cache that such places reach: a slab on each of eight devices.
pub const MOST: Bytes = Bytes(1 << (3 + 40));

/// A static cache of rows on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Device memory for rows and the map that finds them.
    pub bytes: Bytes,
    /// What else is taken of it: Mask and Bitval, and the bit for each row of the table that says
    /// whether it is compressed (section 5, "PCIe transfer compression").
    pub fixed: Bytes,
}

impl Cache {
    /// Rows of `row_bytes` on average that the cache holds of `rows`: packed ones lie "contiguously
    /// within the data slabs" (section 5), so that a cache of the same size holds more of them.
    pub fn rows(&self, rows: u64, row_bytes: f64) -> u64 {
        let free = self.bytes.saturating_sub(self.fixed).0 as f64;
        let held = (free / (row_bytes + MAP_ENTRY_BYTES as f64)).floor();
        // A float above the largest integer becomes that.
        (held as u64).min(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables 5, 6 and 7: bytes of a row, ratio of the table, rows cached without and with packing.
    #[test]
    fn packing_raises_what_a_cache_holds_as_in_table_7() {
        for (name, row_bytes, ratio, original, compressed) in [
            ("Pubmed", 500 * 4, 7.35, 24_401, 166_901),
            ("Citeseer", 3703 * 4, 25.09, 24_401, 589_182),
            ("Cora", 8710 * 4, 26.34, 24_401, 631_609),
        ] {
            let bytes = original * (row_bytes + MAP_ENTRY_BYTES);
            let cache = Cache { bytes: Bytes(bytes), fixed: Bytes::ZERO };
            assert_eq!(cache.rows(2_449_029, row_bytes as f64), original);
            let held = cache.rows(2_449_029, row_bytes as f64 / ratio);
            let error = held as f64 / f64::from(compressed) - 1.0;
            assert!(error.abs() < 0.002, "{name}: {held} instead of {compressed}");
        }
    }

    #[test]
    fn a_cache_holds_no_more_than_there_is() {
        let cache = |bytes, fixed| Cache { bytes: Bytes(bytes), fixed: Bytes(fixed) };
        assert_eq!(cache(10_000, 0).rows(3, 76.0), 3);
        assert_eq!(cache(999, 0).rows(30, 76.0), 9);
        assert_eq!(cache(100, 101).rows(30, 76.0), 0);
    }
}
