//! One iteration: a thread for each lane that has anything to do, compute on the calling one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use schema::{ActionId, Lane, Plan};

use super::action::{ActionContext, Interrupted, Workbench};
use super::gate::{Aborted, AbortsInPanic, Gate};
use super::injection::Injection;
use super::ledger::Ledger;
use crate::device::{ActionError, Interruption, Stop};

pub(super) struct Iteration<'a> {
    plan: &'a Plan,
    context: &'a ActionContext<'a>,
    ledger: &'a Mutex<Ledger>,
    injection: &'a Injection,
    /// Which one it is, counted from 0.
    number: u64,
    gate: Gate<'a>,
    failure: Mutex<Option<(ActionId, ActionError)>>,
}

impl<'a> Iteration<'a> {
    pub fn new(
        plan: &'a Plan,
        context: &'a ActionContext<'a>,
        ledger: &'a Mutex<Ledger>,
        injection: &'a Injection,
        number: u64,
        stop: &'a Stop,
    ) -> Self {
        let gate = Gate::new(stop);
        Self { plan, context, ledger, injection, number, gate, failure: Mutex::new(None) }
    }

    /// Runs it to its end, or until it is aborted. No lane works on when this returns.
    pub fn run(self, benches: &mut [Workbench; Lane::COUNT]) -> Result<(), Interruption> {
        let spawned = thread::scope(|scope| {
            let mut on_calling_thread = None;
            for (lane, bench) in Lane::ALL.into_iter().zip(benches) {
                if lane == Lane::Compute {
                    on_calling_thread = Some(bench);
                    continue;
                }
                if self.queue(lane).is_empty() {
                    continue;
                }
                let this = &self;
                let lives = move || this.live(lane, bench);
                if let Err(why) = thread::Builder::new()
                    .name(format!("lane {}", lane.name()))
                    .spawn_scoped(scope, lives)
                {
                    self.gate.abort();
                    return Err(Interruption::NoThread(why.to_string()));
                }
            }
            self.gate.enter(Lane::Compute);
            let is_there = |lane: Lane| self.queue(lane).is_empty() || self.gate.has_entered(lane);
            while !Lane::ALL.into_iter().skip(1).all(is_there) {
                thread::yield_now();
            }
            lock(self.ledger).begin();
            self.gate.open();
            if let Some(bench) = on_calling_thread {
                self.run_queue(Lane::Compute, bench);
            }
            Ok(())
        });
        spawned?;
        if let Some((action, error)) = lock(&self.failure).take() {
            return Err(Interruption::Failed(action, error));
        }
        match lock(self.ledger).events.len() == 2 * self.plan.actions.len() {
            true => Ok(()),
            false => Err(Interruption::Stopped),
        }
    }

    fn queue(&self, lane: Lane) -> &[u32] {
        &self.context.script.queues[lane.index()]
    }

    fn live(&self, lane: Lane, bench: &mut Workbench) {
        self.gate.enter(lane);
        if self.gate.wait_until_open(lane).is_ok() {
            self.run_queue(lane, bench);
        }
    }

    fn run_queue(&self, lane: Lane, bench: &mut Workbench) {
        let _guard = AbortsInPanic(&self.gate);
        for id in self.queue(lane).iter().map(|id| ActionId(*id)) {
            match self.run_action(lane, id, bench) {
                Ok(()) => {}
                Err(Interrupted::Aborted) => return,
                Err(Interrupted::Failed(error)) => {
                    lock(&self.failure).get_or_insert((id, error));
                    return self.gate.abort();
                }
            }
        }
    }

    fn run_action(
        &self,
        lane: Lane,
        id: ActionId,
        bench: &mut Workbench,
    ) -> Result<(), Interrupted> {
        let mut turn = self.gate.wait_for_turn(lane, self.context.script.order.ended_before(id))?;
        let damage = self.injection.of(id, self.number);
        self.linger(damage.late_by)?;
        lock(self.ledger).start(self.plan, id)?;
        let moved = self.context.act(&self.gate, id, &mut turn, bench, damage)?;
        lock(self.ledger).end(self.plan, id, moved);
        self.gate.end(lane, turn);
        Ok(())
    }

    /// Lets time pass, in steps so small that nobody who asks to stop waits long.
    fn linger(&self, duration: Duration) -> Result<(), Aborted> {
        if duration.is_zero() {
            return Ok(());
        }
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.gate.check()?;
            match left > SLEEPS {
                true => thread::sleep((left - SLEEPS).min(LONGEST_SLEEP)),
                false => std::hint::spin_loop(),
            }
        }
    }
}

/// What sleeping may take too long.
const SLEEPS: Duration = Duration::from_micros(80);
/// A sleep after which a lane looks whether it is asked to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
