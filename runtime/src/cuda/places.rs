//! Places in one piece of memory.

/// Places one behind the other.
#[derive(Default)]
pub(super) struct Places {
    /// Where the last one ends.
    pub end: u64,
}

impl Places {
    /// Where the next begins, of so many bytes.
    pub fn next(&mut self, bytes: u64) -> u64 {
        let begin = self.end;
        self.end = (begin + bytes).next_multiple_of(256);
        begin
    }
}
