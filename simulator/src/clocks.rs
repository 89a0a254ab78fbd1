//! Which action ends before which starts, whatever the timing.

use schema::{ActionId, Lane, Plan};

/// The order that lanes and dependencies make, as one counter per lane and action: how many
/// actions of that lane are known to have ended when the action starts. Because each lane is a
/// total order, these counters decide every pair exactly.
#[derive(Debug, Default)]
pub struct HappensBefore {
    /// Position of each action in its lane, and its lane.
    position: Vec<(u32, Lane)>,
    ended: Vec<[u32; Lane::COUNT]>,
    /// The last action of each lane.
    last: [Option<usize>; Lane::COUNT],
}

impl HappensBefore {
    /// The order of a plan's actions. `after` must point backwards, as [`schema::Plan`] checks.
    pub fn of(plan: &Plan) -> Self {
        let mut order = Self::default();
        for action in &plan.actions {
            order.push(plan.lane(action), &action.after);
        }
        order
    }

    /// The order of a plan's actions that are paced, too, and for each action the ends that it must
    /// wait for: the order of its lane and these imply all others.
    pub fn paced(plan: &Plan) -> (Self, Vec<Vec<ActionId>>) {
        let mut order = Self::default();
        let waits = plan.actions.iter().map(|action| {
            let lane = plan.lane(action);
            let waits = order.reduce(lane, &[&action.after[..], &action.not_before].concat());
            order.push(lane, &waits);
            waits
        });
        let waits = waits.collect();
        (order, waits)
    }

    /// Appends an action.
    pub fn push(&mut self, lane: Lane, after: &[ActionId]) {
        let mut ended = self.ended_on_lane(lane);
        for dependency in after {
            self.join(&mut ended, dependency.index());
        }
        let previous = self.last[lane.index()].replace(self.position.len());
        self.position.push((previous.map_or(0, |p| self.position[p].0 + 1), lane));
        self.ended.push(ended);
    }

    /// The dependencies among `wanted` that an action about to be pushed on `lane` must state, the
    /// others following from the order of its lane or from those stated: the transitive reduction,
    /// one action at a time.
    pub fn reduce(&self, lane: Lane, wanted: &[ActionId]) -> Vec<ActionId> {
        let by_lane = self.ended_on_lane(lane);
        // Of one lane, the last dependency implies the others.
        let mut latest = [None::<ActionId>; Lane::COUNT];
        for dependency in wanted {
            let (position, lane) = self.position[dependency.index()];
            let slot = &mut latest[lane.index()];
            if position >= by_lane[lane.index()] && slot.is_none_or(|other| other < *dependency) {
                *slot = Some(*dependency);
            }
        }
        let candidates: Vec<ActionId> = latest.into_iter().flatten().collect();
        let implied = |d: &ActionId| candidates.iter().any(|other| self.ends_before(*d, *other));
        let mut stated: Vec<ActionId> =
            candidates.iter().filter(|d| !implied(d)).copied().collect();
        stated.sort_unstable();
        stated
    }

    /// What has ended when the next action of a lane starts, for the lane's order alone.
    fn ended_on_lane(&self, lane: Lane) -> [u32; Lane::COUNT] {
        let Some(previous) = self.last[lane.index()] else { return [0; Lane::COUNT] };
        let mut ended = self.ended[previous];
        ended[lane.index()] = self.position[previous].0 + 1;
        ended
    }

    fn join(&self, ended: &mut [u32; Lane::COUNT], dependency: usize) {
        for (mine, theirs) in ended.iter_mut().zip(&self.ended[dependency]) {
            *mine = (*mine).max(*theirs);
        }
        let (position, lane) = self.position[dependency];
        ended[lane.index()] = ended[lane.index()].max(position + 1);
    }

    /// How many actions of each lane have ended in every timing before this one starts.
    pub fn ended_before(&self, action: ActionId) -> &[u32; Lane::COUNT] {
        &self.ended[action.index()]
    }

    /// Whether `first` has ended in every timing before `second` starts.
    pub fn ends_before(&self, first: ActionId, second: ActionId) -> bool {
        let (position, lane) = self.position[first.index()];
        position < self.ended[second.index()][lane.index()]
    }
}
