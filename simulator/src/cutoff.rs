//! What a search is still interested in.

/// What decisions may cost at most to be of interest: time of compute beyond the iteration's own
/// ops, and memory beyond a budget, at a price. An evaluation ends as soon as it is clear that they
/// cost more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cutoff {
    /// Nanoseconds.
    pub limit: f64,
    /// Nanoseconds per byte of the peak beyond the budget.
    pub price: f64,
    /// Bytes.
    pub budget: u64,
}

impl Cutoff {
    /// Everything is of interest.
    pub const NONE: Self = Self { limit: f64::INFINITY, price: 0.0, budget: 0 };

    /// Whether this much recomputation and memory cost too much.
    pub(crate) fn ends(&self, recompute_ns: u64, peak: u64) -> bool {
        let beyond = peak.saturating_sub(self.budget) as f64;
        recompute_ns as f64 + self.price * beyond > self.limit
    }
}
