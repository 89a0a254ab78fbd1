//! Addresses, cut where any buffer begins or ends.

/// Buffers as ranges of *cells*: stretches of addresses within which no buffer begins or ends.
#[derive(Debug)]
pub(crate) struct Layout {
    /// First cell and the one behind the last, by buffer. An empty buffer has none.
    ranges: Vec<(u32, u32)>,
    cells: usize,
}

impl Layout {
    /// The cells of buffers, given as address and size.
    pub(crate) fn of(buffers: &[(u64, u64)]) -> Self {
        let filled = || buffers.iter().filter(|(_, bytes)| *bytes > 0);
        let mut cuts: Vec<u64> = filled().flat_map(|(a, bytes)| [*a, a + bytes]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let cell = |address: u64| cuts.partition_point(|cut| *cut < address) as u32;
        let range = |&(address, bytes): &(u64, u64)| match bytes {
            0 => (0, 0),
            _ => (cell(address), cell(address + bytes)),
        };
        Self { ranges: buffers.iter().map(range).collect(), cells: cuts.len() }
    }

    pub(crate) fn cells(&self, buffer: usize) -> std::ops::Range<usize> {
        let (first, end) = self.ranges[buffer];
        first as usize..end as usize
    }

    pub(crate) fn cell_count(&self) -> usize {
        self.cells
    }
}
