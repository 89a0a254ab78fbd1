//! Progress of a search, told to whoever waits for it.

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in a few words.
    pub phase: &'static str,
    /// Steps done.
    pub done: u64,
    /// Steps in this phase at most.
    pub of: u64,
}

/// Someone who waits for a plan, and may give up. Searches on several threads tell the same one.
pub trait Watch: Sync {
    /// Is told of progress; returns whether the search is to go on.
    fn go_on(&self, progress: Progress) -> bool;
}

/// Waits without a word.
pub struct NoWatch;

impl Watch for NoWatch {
    fn go_on(&self, _: Progress) -> bool {
        true
    }
}
