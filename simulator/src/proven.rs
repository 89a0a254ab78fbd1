//! A plan that carries its proof.

use schema::{Document, Plan, Trace};

use crate::{ContractError, Misstated, Unsafe, check_contract, check_figures, prove};

/// A plan that is well formed, safe under every timing, computes its trace, and is as it says of
/// itself. [`ProvenPlan::check`] is the only way to one.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvenPlan(Plan);

/// What could not be shown of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum Unproven {
    /// It is not well formed.
    Malformed(#[from] schema::Malformed),
    /// Some timing breaks it.
    Unsafe(#[from] Unsafe),
    /// It states a figure that does not follow from it.
    Misstated(#[from] Misstated),
    /// It does not compute its trace.
    Contract(#[from] ContractError),
}

impl ProvenPlan {
    /// Shows all of it for a plan of a trace.
    ///
    /// # Errors
    ///
    /// The first thing that does not hold.
    pub fn check(plan: Plan, trace: &Trace) -> Result<Self, Unproven> {
        plan.check()?;
        prove(&plan)?;
        check_figures(&plan)?;
        check_contract(&plan, trace)?;
        Ok(Self(plan))
    }

    /// The plan without its proof, to be changed.
    pub fn into_plan(self) -> Plan {
        self.0
    }
}

impl std::ops::Deref for ProvenPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}
