//! Which version of a tensor is where: the part of the contract about what changes in place.
//!
//! An op may change what it reads and no op makes, an update its parameter ([`Op::mutates`]).
//! Each such op of the trace gives the tensor its next version, and whoever reads the tensor wants
//! the version that the trace has at its place. A buffer has the version that it was filled with,
//! until an op changes it; copies and codecs carry a version on.
//!
//! Versions are counted in the order of the plan's list. That is the order of every timing, because
//! whatever uses a buffer that changes must be ordered against the change, by lanes and `after`.

use schema::{Action, ActionId, BufferId, HostBufferId, Lane, Op, OpId, Plan, TensorId, Trace};

use super::ContractError;
use crate::clocks::HappensBefore;
use crate::model::Model;

/// The versions of what is in each buffer, as a plan's actions are gone through in order.
pub(super) struct Versions<'a> {
    plan: &'a Plan,
    order: HappensBefore,
    /// The ops that change each tensor, in order.
    changes: Vec<Vec<OpId>>,
    device: Vec<u32>,
    host: Vec<u32>,
    /// The last action that changed a buffer.
    changed_by: Vec<Option<ActionId>>,
    /// The last action of each lane that read a buffer of a tensor that changes.
    read_by: Vec<[Option<ActionId>; Lane::COUNT]>,
    /// The same of host buffers.
    changed_there_by: Vec<Option<ActionId>>,
    read_there_by: Vec<[Option<ActionId>; Lane::COUNT]>,
}

impl<'a> Versions<'a> {
    pub fn new(plan: &'a Plan, trace: &Trace, model: &Model) -> Self {
        let mut changes = vec![Vec::new(); trace.tensors.len()];
        for (index, op) in trace.ops.iter().enumerate() {
            let id = OpId::from_index(index);
            changed_by(op, id, model).for_each(|tensor| changes[tensor.index()].push(id));
        }
        Self {
            plan,
            order: HappensBefore::of(plan),
            changes,
            device: vec![0; plan.buffers.len()],
            host: vec![0; plan.host_buffers.len()],
            changed_by: vec![None; plan.buffers.len()],
            read_by: vec![[None; Lane::COUNT]; plan.buffers.len()],
            changed_there_by: vec![None; plan.host_buffers.len()],
            read_there_by: vec![[None; Lane::COUNT]; plan.host_buffers.len()],
        }
    }

    /// An action reads a device buffer, and leaves it as it is.
    pub fn read(&mut self, id: ActionId, buffer: BufferId) -> Result<(), ContractError> {
        let Some(tensor) = self.changing(buffer) else { return Ok(()) };
        if let Some(update) = self.changed_by[buffer.index()] {
            self.check_order(update, id, update, tensor)?;
        }
        let lane = self.plan.lane(&self.plan.actions[id.index()]);
        self.read_by[buffer.index()][lane.index()] = Some(id);
        Ok(())
    }

    /// The same of a host buffer.
    pub fn read_there(&mut self, id: ActionId, buffer: HostBufferId) -> Result<(), ContractError> {
        let tensor = self.plan.host_buffers[buffer.index()].tensor;
        if let Some(update) = self.changed_there_by[buffer.index()] {
            self.check_order(update, id, update, tensor)?;
        }
        let lane = self.plan.lane(&self.plan.actions[id.index()]);
        self.read_there_by[buffer.index()][lane.index()] = Some(id);
        Ok(())
    }

    /// An op runs on the host's processor, on host buffers of the tensors that it reads, and changes
    /// them where it may.
    pub fn run_there(
        &mut self,
        id: ActionId,
        action: &Action,
        op: OpId,
    ) -> Result<(), ContractError> {
        for buffer in &action.there {
            self.read_there(id, *buffer)?;
            let tensor = self.plan.host_buffers[buffer.index()].tensor;
            let changes = &self.changes[tensor.index()];
            let needed = changes.partition_point(|change| *change < op) as u32;
            let found = self.host[buffer.index()];
            if found != needed {
                return Err(ContractError::Version { action: id, tensor, found, needed });
            }
            if changes.binary_search(&op).is_ok() {
                for other in self.read_there_by[buffer.index()].into_iter().flatten() {
                    if other != id {
                        self.check_order(other, id, id, tensor)?;
                    }
                }
                self.host[buffer.index()] = needed + 1;
                self.changed_there_by[buffer.index()] = Some(id);
            }
        }
        Ok(())
    }

    /// An op runs on buffers of the tensors that it reads; for the first time, it changes them where
    /// it may.
    pub fn run(
        &mut self,
        id: ActionId,
        action: &Action,
        op: OpId,
        again: bool,
    ) -> Result<(), ContractError> {
        for buffer in &action.reads {
            let Some(tensor) = self.changing(*buffer) else { continue };
            self.read(id, *buffer)?;
            let changes = &self.changes[tensor.index()];
            let needed = changes.partition_point(|change| *change < op) as u32;
            let found = self.device[buffer.index()];
            if found != needed {
                return Err(ContractError::Version { action: id, tensor, found, needed });
            }
            if !again && changes.binary_search(&op).is_ok() {
                for other in self.read_by[buffer.index()].into_iter().flatten() {
                    if other != id {
                        self.check_order(other, id, id, tensor)?;
                    }
                }
                self.device[buffer.index()] = needed + 1;
                self.changed_by[buffer.index()] = Some(id);
            }
        }
        Ok(())
    }

    /// What one device buffer holds is in another, in whatever form.
    pub fn carry(&mut self, from: BufferId, to: BufferId) {
        self.device[to.index()] = self.device[from.index()];
    }

    /// What a device buffer holds is in a host buffer, too.
    pub fn carry_out(&mut self, from: BufferId, to: HostBufferId) {
        self.host[to.index()] = self.device[from.index()];
    }

    /// What a host buffer holds is in a device buffer, too.
    pub fn carry_in(&mut self, from: HostBufferId, to: BufferId) {
        self.device[to.index()] = self.host[from.index()];
    }

    /// A buffer that stays when the iteration ends holds the last version.
    pub fn check_end(&self, buffer: BufferId) -> Result<(), ContractError> {
        let Some(tensor) = self.changing(buffer) else { return Ok(()) };
        let last = self.changes[tensor.index()].len() as u32;
        match self.device[buffer.index()] {
            found if found == last => Ok(()),
            found => Err(ContractError::OldAtEnd { buffer, tensor, found, last }),
        }
    }

    /// A host buffer that stays when the iteration ends holds the last version, too.
    pub fn check_home(&self, buffer: HostBufferId) -> Result<(), ContractError> {
        let tensor = self.plan.host_buffers[buffer.index()].tensor;
        let last = self.changes[tensor.index()].len() as u32;
        match self.host[buffer.index()] {
            found if found == last => Ok(()),
            _ => Err(ContractError::Home {
                buffer,
                why: "does not end with the tensor's last version",
            }),
        }
    }

    /// The tensor of a buffer, if any op changes it.
    fn changing(&self, buffer: BufferId) -> Option<TensorId> {
        let tensor = self.plan.buffers[buffer.index()].tensor?;
        (!self.changes[tensor.index()].is_empty()).then_some(tensor)
    }

    fn check_order(
        &self,
        first: ActionId,
        second: ActionId,
        update: ActionId,
        tensor: TensorId,
    ) -> Result<(), ContractError> {
        let other = if update == first { second } else { first };
        match self.order.ends_before(first, second) {
            true => Ok(()),
            false => Err(ContractError::UnorderedUpdate { update, other, tensor }),
        }
    }
}

/// The tensors that an op may change in place.
fn changed_by(op: &Op, id: OpId, model: &Model) -> impl Iterator<Item = TensorId> {
    op.reads.iter().copied().filter(move |tensor| model.changes(id, *tensor))
}
