//! Which buffers are live, checked while a plan runs, and when actions start and end.

use std::time::Instant;

use schema::{ActionId, BufferId, Bytes, HostBufferId, Nanos, Plan};
use simulator::{Account, Event, Program};

use crate::device::ActionError;

/// The ledger of a device. It is asked at the start and at the end of every action, so that its
/// events are in the order in which they happened.
///
/// The proof makes its errors impossible; it is there to say so should the proof be wrong.
pub(super) struct Ledger {
    program: Program,
    account: Account,
    /// Live buffers by address: where each begins and ends, and which it is.
    live: Vec<(u64, u64, BufferId)>,
    at_start: Vec<(u64, u64, BufferId)>,
    since: Instant,
    /// What happened in the iteration so far.
    pub events: Vec<Event>,
    /// Bytes that each action moved over the link.
    pub moved: Vec<u64>,
    /// End of the highest address that was live in any iteration.
    pub highest: u64,
    /// Largest sum of live buffers in any iteration.
    pub most: u64,
    /// End of the highest host address that was used in any iteration.
    pub highest_on_host: u64,
}

impl Ledger {
    pub fn new(plan: &Plan) -> Self {
        let program = Program::of(plan);
        let buffers = plan.buffers.iter().enumerate();
        let mut at_start: Vec<_> = buffers
            .filter(|(_, buffer)| buffer.at_start && buffer.bytes > Bytes::ZERO)
            .map(|(id, buffer)| {
                (buffer.address, buffer.address + buffer.bytes.0, BufferId::from_index(id))
            })
            .collect();
        at_start.sort_unstable();
        Self {
            account: Account::of(&program),
            program,
            live: Vec::with_capacity(plan.buffers.len()),
            at_start,
            since: Instant::now(),
            events: Vec::with_capacity(2 * plan.actions.len()),
            moved: vec![0; plan.actions.len()],
            highest: 0,
            most: 0,
            highest_on_host: 0,
        }
    }

    /// Begins an iteration: what is there at the start is live.
    pub fn begin(&mut self) {
        self.account.begin(&self.program);
        self.live.clear();
        self.live.extend_from_slice(&self.at_start);
        self.highest = self.at_start.iter().map(|(_, end, _)| *end).fold(self.highest, u64::max);
        self.events.clear();
        self.since = Instant::now();
    }

    /// An action starts: what it writes comes to be.
    pub fn start(&mut self, plan: &Plan, id: ActionId) -> Result<(), ActionError> {
        self.events.push(Event { action: id, at: self.now(), ends: false });
        let action = &plan.actions[id.index()];
        for pair in &action.in_place {
            self.remove(plan, pair.input);
        }
        for buffer in &action.writes {
            self.insert(plan, *buffer)?;
        }
        for host in action.host.iter().chain(&action.there) {
            self.use_host(plan, *host)?;
        }
        self.account.starts(&self.program, id.0);
        self.most = self.most.max(self.account.peak());
        Ok(())
    }

    /// An action ends, which moved so many bytes: what it was the last to use dies.
    pub fn end(&mut self, plan: &Plan, id: ActionId, moved: u64) {
        self.moved[id.index()] = moved;
        self.events.push(Event { action: id, at: self.now(), ends: true });
        let Self { program, account, live, .. } = self;
        account.ends(program, id.0, |buffer| remove(live, plan, buffer));
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn insert(&mut self, plan: &Plan, id: BufferId) -> Result<(), ActionError> {
        let buffer = &plan.buffers[id.index()];
        let (begin, end) = (buffer.address, buffer.address + buffer.bytes.0);
        if end > plan.budget.0 {
            return Err(ActionError::OverCap { what: id.to_string(), end, cap: plan.budget });
        }
        if begin == end {
            return Ok(());
        }
        let at = self.live.partition_point(|(_, other, _)| *other <= begin);
        match self.live.get(at) {
            Some((other, _, live)) if *other < end => {
                return Err(ActionError::Overlap { buffer: id, live: *live });
            }
            _ => self.live.insert(at, (begin, end, id)),
        }
        self.highest = self.highest.max(end);
        Ok(())
    }

    fn remove(&mut self, plan: &Plan, buffer: BufferId) {
        remove(&mut self.live, plan, buffer);
    }

    fn use_host(&mut self, plan: &Plan, id: HostBufferId) -> Result<(), ActionError> {
        let host = &plan.host_buffers[id.index()];
        let end = host.address + host.bytes.0;
        if end > plan.host_budget.0 {
            return Err(ActionError::OverCap { what: id.to_string(), end, cap: plan.host_budget });
        }
        self.highest_on_host = self.highest_on_host.max(end);
        Ok(())
    }
}

/// Takes a buffer out, unless an output that was laid over it has its place.
fn remove(live: &mut Vec<(u64, u64, BufferId)>, plan: &Plan, buffer: BufferId) {
    let begin = plan.buffers[buffer.index()].address;
    let at = live.partition_point(|(_, end, _)| *end <= begin);
    if live.get(at).is_some_and(|(_, _, id)| *id == buffer) {
        live.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use planner::methods::InCoreMethod;
    use planner::{NoMonitor, Problem};

    use super::*;
    use crate::network::tests::{tiny, trace};

    fn plan() -> Plan {
        let trace = trace(&tiny(2, 16));
        let machine = scenarios::machine("p100").unwrap();
        let problem = Problem::new(&trace, &machine, Bytes(1 << 20));
        planner::plan(&InCoreMethod, &problem, &NoMonitor).unwrap().into_plan()
    }

    fn run(ledger: &mut Ledger, plan: &Plan) -> Result<(), ActionError> {
        ledger.begin();
        for id in (0..plan.actions.len()).map(ActionId::from_index) {
            ledger.start(plan, id)?;
            ledger.end(plan, id, 0);
        }
        Ok(())
    }

    #[test]
    fn what_no_proven_plan_does_is_an_error_at_run_time_too() {
        let mut over = plan();
        over.budget = over.predicted.arena - Bytes(1);
        let error = run(&mut Ledger::new(&over), &over);
        assert!(matches!(error, Err(ActionError::OverCap { .. })), "{error:?}");

        let mut overlapping = plan();
        let constant = overlapping.buffers.iter().position(|b| b.at_start).unwrap();
        let written = overlapping.actions[0].writes[0];
        overlapping.buffers[written.index()].address = overlapping.buffers[constant].address;
        let live = BufferId::from_index(constant);
        let error = run(&mut Ledger::new(&overlapping), &overlapping);
        assert_eq!(error, Err(ActionError::Overlap { buffer: written, live }));
    }
}
