//! What is to go wrong, by action.

use std::time::Duration;

use schema::{ActionId, Lane, Plan, Task, Trace};

use crate::device::{Damaged, Delays, DeviceError, Fault};
use crate::network::Random;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Injected {
    pub link_fails: bool,
    pub no_host_memory: bool,
    pub damages_form: bool,
    pub late_by: Duration,
}

/// What goes wrong with a plan's actions, which is nothing where no faults are asked for.
pub(super) struct Injection {
    damages: Vec<Injected>,
    delays: Option<Delays>,
}

impl Injection {
    /// # Errors
    /// If the plan has nothing with which a fault could happen.
    pub fn new(
        plan: &Plan,
        trace: &Trace,
        faults: &[Fault],
        delays: Option<Delays>,
    ) -> Result<Self, DeviceError> {
        let mut injection = Self { damages: Vec::new(), delays };
        if !faults.is_empty() {
            injection.damages = vec![Injected::default(); plan.actions.len()];
        }
        for fault in faults {
            let (whom, what) = victims(plan, trace, fault);
            if whom.is_empty() {
                let why = format!("the plan has no such {what}");
                return Err(DeviceError::Fault { fault: fault.clone(), why });
            }
            for action in whom {
                let damage = &mut injection.damages[action];
                match fault {
                    Fault::D2h(_) | Fault::H2d(_) => damage.link_fails = true,
                    Fault::HostMemory => damage.no_host_memory = true,
                    Fault::Corrupt(_) => damage.damages_form = true,
                    Fault::Delay { by, .. } => damage.late_by += *by,
                }
            }
        }
        Ok(injection)
    }

    /// What goes wrong with an action, of this iteration counted from 0.
    pub fn of(&self, action: ActionId, iteration: u64) -> Injected {
        let mut damage = self.damages.get(action.index()).copied().unwrap_or_default();
        if let Some(Delays { seed, longest }) = self.delays {
            let mut random = Random::new(seed ^ iteration.rotate_left(32));
            random.skip(u64::from(action.0));
            let draw = random.next();
            // Half of the actions start when they may: delays that are all alike change no order.
            if draw & 1 == 1 {
                let share = (draw >> 40) as f64 / (1u64 << 24) as f64;
                damage.late_by += longest.mul_f64(share);
            }
        }
        damage
    }
}

/// The actions that a fault happens to, and what they are.
fn victims(plan: &Plan, trace: &Trace, fault: &Fault) -> (Vec<usize>, &'static str) {
    let all = |is: &dyn Fn(usize) -> bool| (0..plan.actions.len()).filter(|a| is(*a)).collect();
    let task = |action: usize| plan.actions[action].task;
    let compresses = |action: usize| {
        let action = &plan.actions[action];
        let by_host = matches!(action.task, Task::D2h(_)) && plan.packed_by_host(action).is_some();
        matches!(action.task, Task::Compress(_)) || by_host
    };
    let nth = |all: Vec<usize>, number: u32| {
        // There is no action 0.
        all.into_iter().nth((number as usize).wrapping_sub(1)).into_iter().collect()
    };
    match fault {
        Fault::D2h(number) => (nth(all(&|a| matches!(task(a), Task::D2h(_))), *number), "copy out"),
        Fault::H2d(number) => (nth(all(&|a| matches!(task(a), Task::H2d(_))), *number), "copy in"),
        Fault::HostMemory => {
            (nth(all(&|a| plan.actions[a].host.is_some()), 1), "action that uses host memory")
        }
        Fault::Corrupt(Damaged::Number(number)) => (nth(all(&compresses), *number), "compression"),
        Fault::Corrupt(Damaged::Tensor(name)) => {
            let is_named = |action: usize| match task(action) {
                Task::Compress(id) | Task::D2h(id) => trace.tensors[id.index()].name == *name,
                _ => false,
            };
            (all(&|action| compresses(action) && is_named(action)), "tensor that is compressed")
        }
        Fault::Delay { lane, number, .. } => {
            (nth(all(&|a| plan.lane(&plan.actions[a]) == *lane), *number), Lane::name(*lane))
        }
    }
}
