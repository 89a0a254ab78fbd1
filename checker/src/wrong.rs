//! What is wrong with a plan.

use schema::ActionId;

/// The rule that a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// It names what the trace does not have, or an action does not have the operands of its task.
    Operands,
    /// Each op runs once, in the trace's order.
    EachOpOnce,
    /// An op runs again only after its run, and only if it may.
    Rerun,
    /// Memory lies within the arena.
    Arena,
    /// Memory is as large as what it holds.
    Size,
    /// An output lies over an input that the op says it may take over, at one address.
    InPlace,
    /// A codec's fidelity is that of the codec, and what varies in size has a way out.
    Codec,
    /// Each buffer is filled by one action, or before the iteration begins.
    FilledOnce,
    /// What is read is there.
    ReadTooEarly,
    /// Nothing else is written where something lies that is still needed.
    Overwritten,
    /// What changes a buffer in place has it for itself.
    ChangedBeside,
    /// A reader has the version that its place in the trace gives it.
    Version,
    /// A reader has the form of the tensor that it takes.
    Form,
    /// What outlives the iteration is there when it ends.
    End,
    /// What the caller holds stays where it comes to be, as long as it is used, or to the end.
    Held,
    /// What the plan says of its memory is so.
    Predicted,
}

/// A rule that a plan breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {what}{}", .action.map(|a| format!(" (actions[{}])", a.0)).unwrap_or_default())]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct Wrong {
    pub rule: Rule,
    pub action: Option<ActionId>,
    pub what: String,
}

impl Wrong {
    pub(crate) fn at(rule: Rule, action: usize, what: impl Into<String>) -> Self {
        Self { rule, action: Some(ActionId::from_index(action)), what: what.into() }
    }

    pub(crate) fn of(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, action: None, what: what.into() }
    }
}
