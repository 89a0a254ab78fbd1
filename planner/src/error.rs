//! Why there is no plan.

use schema::{Bytes, OpId};
use simulator::{Infeasible, Unproven};

/// What a method or a part of the way to its plan came to.
pub(crate) type Result<T, E = PlanError> = std::result::Result<T, E>;

/// Why a method made no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PlanError {
    /// The method's decisions do not fit the budget.
    #[error("{cause}, which is {short_by} more than the budget of {budget}")]
    OverBudget { cause: Infeasible, short_by: Bytes, budget: Bytes },
    /// The decisions fit, but no packing of their buffers into addresses was found.
    #[error(
        "the buffers fit the budget of {budget} together, but their addresses reach {short_by} \
         beyond it"
    )]
    Fragmented {
        /// By how much the best packing is too large.
        short_by: Bytes,
        budget: Bytes,
        /// What they take together, where they take most.
        peak: Bytes,
        /// What reaches beyond it.
        beyond: Vec<Beyond>,
    },
    /// The decisions cannot be carried out at all.
    #[error("{0}")]
    Impossible(Infeasible),
    /// The method needs decisions that are not allowed.
    #[error("the method needs to {what}, which is not allowed: allow it, or choose another method")]
    NotAllowed {
        /// `swap` or `recompute`.
        what: &'static str,
    },
    /// The method has the host's processor run updates, and nobody says how fast it does.
    #[error(
        "the method has the host's processor run the optimizer's updates, and the machine says nothing \
         of how fast it does: state `host.updates` in its file, in bytes per second"
    )]
    NoUpdatesThere,
    /// The method is for traces of another kind.
    #[error("the method needs {what}, which the trace does not have: choose another method")]
    NotApplicable { what: &'static str },
    /// The method compresses, and there is nothing to compress with.
    #[error("the method needs {what}: name one that serves, such as `--codecs {option}`")]
    NoCodec {
        /// What kind of codec it needs.
        what: &'static str,
        option: &'static str,
    },
    /// A solver found no decisions.
    #[error(
        "{solver} finds no decisions for a programme of {variables} variables in {nodes} nodes: \
         allow more memory, or choose another method, say tide"
    )]
    Unsolved {
        solver: &'static str,
        variables: usize,
        /// Nodes of the search tree that it may look at.
        nodes: u64,
    },
    /// Times that contention and reruns make longer than a number holds.
    #[error(
        "running and copying everything once takes more than 2^50 ns, some 13 days: correct the link's \
         bandwidth, or the trace's times"
    )]
    TooLong,
    /// A method made a plan that cannot be shown to be safe, which is a mistake of ours.
    #[error("{method} made an unsafe plan: {cause}")]
    Unproven { method: String, cause: Unproven },
    /// Whoever waited gave up.
    #[error("interrupted")]
    Interrupted,
}

/// A buffer whose addresses reach beyond the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beyond {
    /// The op before whose end it comes to be.
    pub first: OpId,
    /// The op before whose end it goes, or the last.
    pub last: OpId,
    /// By how much it does.
    pub bytes: Bytes,
}

impl PlanError {
    /// The error for infeasible decisions under a budget.
    pub fn from_infeasible(cause: Infeasible, budget: Bytes) -> Self {
        match cause.needed() {
            Some(needed) => {
                Self::OverBudget { cause, short_by: needed.saturating_sub(budget), budget }
            }
            None => Self::Impossible(cause),
        }
    }

    /// How much more device memory would have been needed, where that is the reason.
    pub fn short_by(&self) -> Option<Bytes> {
        match self {
            Self::OverBudget { short_by, .. } | Self::Fragmented { short_by, .. } => {
                Some(*short_by)
            }
            _ => None,
        }
    }
}
