//! When the actions of an iteration start and end, by events of their streams.

use schema::{ActionId, Lane, Nanos};
use simulator::Event as Moment;

use super::CudaError;
use super::commands::Commands;
use super::driver::{Context, Event};

pub(super) struct Moments {
    /// When the first stream begins.
    pub origin: Event,
    /// Of each action; none for one that its stream comes to from the action before without
    /// waiting: its start is that one's end. An event costs the host and the stream a microsecond
    /// or so.
    starts: Vec<Option<Event>>,
    ends: Vec<Event>,
}

impl Moments {
    pub fn new(context: &Context, commands: &Commands) -> Result<Self, CudaError> {
        let mut begun = [false; Lane::COUNT];
        let start = |issue: &super::commands::Issue| {
            let follows = std::mem::replace(&mut begun[issue.lane.index()], true);
            let own = !follows || !issue.waits.is_empty();
            own.then(|| context.event()).transpose()
        };
        Ok(Self {
            origin: context.event()?,
            starts: commands.issues.iter().map(start).collect::<Result<_, _>>()?,
            ends: commands.issues.iter().map(|_| context.event()).collect::<Result<_, _>>()?,
        })
    }

    /// The event of its start, if the action has one of its own.
    pub fn start(&self, action: ActionId) -> Option<&Event> {
        self.starts[action.index()].as_ref()
    }

    pub fn end(&self, action: ActionId) -> &Event {
        &self.ends[action.index()]
    }

    /// What happened when in an iteration that has ended.
    pub fn read_back(&self, commands: &Commands) -> Result<Vec<Moment>, CudaError> {
        let mut last = [0u64; Lane::COUNT];
        let mut times = Vec::with_capacity(self.ends.len());
        for ((issue, start), end) in commands.issues.iter().zip(&self.starts).zip(&self.ends) {
            let last = &mut last[issue.lane.index()];
            let start = match start {
                Some(start) => start.since(&self.origin)?,
                None => *last,
            };
            *last = end.since(&self.origin)?;
            times.push((start, *last));
        }
        Ok(in_order(commands, &times))
    }
}

/// Starts and ends in an order in which they can have happened. Streams tell the time to half a
/// microsecond or so: what they order stays in order, and of what happened at one moment what the
/// plan has first comes first.
fn in_order(commands: &Commands, times: &[(u64, u64)]) -> Vec<Moment> {
    let mut ends: Vec<u64> = Vec::with_capacity(times.len());
    let mut free = [0u64; Lane::COUNT];
    let mut moments = Vec::with_capacity(2 * times.len());
    for (issue, (start, end)) in commands.issues.iter().zip(times) {
        let free = &mut free[issue.lane.index()];
        let after = issue.waits.iter().map(|on| ends[on.index()]).fold(*free, u64::max);
        let start = after.max(*start);
        let end = start.max(*end);
        *free = end;
        ends.push(end);
        let moment = |at, ends| Moment { action: issue.action, at: Nanos(at), ends };
        moments.extend([moment(start, false), moment(end, true)]);
    }
    // Stable, and the plan's order has every action behind what it waits for.
    moments.sort_by_key(|moment| moment.at);
    moments
}
