//! When each action of a program starts and ends.

use schema::Lane;

use crate::lanes::Lanes;
use crate::{Account, Program};

/// The result of a replay, and the room in which it is made: replaying again into the same value
/// allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Start of each action, in nanoseconds.
    pub start: Vec<u64>,
    /// End of each action, in nanoseconds.
    pub end: Vec<u64>,
    /// The actions in the order in which they started.
    pub order: Vec<u32>,
    /// When the last action ended.
    pub iteration_ns: u64,
    /// Largest sum of live buffers.
    pub peak_bytes: u64,
    account: Account,
}

const NOT_YET: u64 = u64::MAX;

/// What a replay tells while it runs.
pub trait Observer {
    /// An action starts.
    fn starts(&mut self, action: u32, now: u64);
    /// An action ends.
    fn ends(&mut self, action: u32, now: u64);
}

impl Observer for () {
    fn starts(&mut self, _: u32, _: u64) {}
    fn ends(&mut self, _: u32, _: u64) {}
}

/// Replays a program with the durations that it states.
pub fn replay(program: &Program, schedule: &mut Schedule) {
    replay_with(program, &program.duration, schedule, &mut ());
}

/// Replays a program with other durations, one per action.
///
/// # Panics
///
/// If there are not as many durations as actions.
pub fn replay_with(
    program: &Program,
    durations: &[u64],
    schedule: &mut Schedule,
    observer: &mut impl Observer,
) {
    assert_eq!(durations.len(), program.len(), "one duration for each action");
    schedule.clear_for(program);
    let mut lanes = Lanes::new(program.speeds);
    let mut next = [0usize; Lane::COUNT];
    // How many of the next action's dependencies are known to have ended.
    let mut met = [0usize; Lane::COUNT];
    let mut now = 0;
    loop {
        for lane in Lane::ALL {
            let Some(&action) = program.queues[lane.index()].get(next[lane.index()]) else {
                continue;
            };
            if !lanes.is_idle(lane) {
                continue;
            }
            let after = program.after.get(action as usize);
            let met = &mut met[lane.index()];
            while *met < after.len() && schedule.end[after[*met] as usize] <= now {
                *met += 1;
            }
            if *met < after.len() {
                continue;
            }
            *met = 0;
            next[lane.index()] += 1;
            schedule.start[action as usize] = now;
            schedule.order.push(action);
            lanes.start(lane, now, durations[action as usize]);
            schedule.account.starts(program, action);
            observer.starts(action, now);
        }
        let Some((end, lane)) = lanes.next_end() else { break };
        now = end;
        lanes.finish(lane, now);
        let action = program.queues[lane.index()][next[lane.index()] - 1];
        schedule.end[action as usize] = now;
        schedule.account.ends(program, action, |_| {});
        observer.ends(action, now);
    }
    schedule.iteration_ns = now;
    schedule.peak_bytes = schedule.account.peak();
}

impl Schedule {
    fn clear_for(&mut self, program: &Program) {
        for times in [&mut self.start, &mut self.end] {
            times.clear();
            times.resize(program.len(), NOT_YET);
        }
        self.order.clear();
        self.order.reserve(program.len());
        self.account.begin(program);
    }
}
