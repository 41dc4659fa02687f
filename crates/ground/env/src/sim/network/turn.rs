//! Threads that take turns: one runs, the others wait in calls.

use super::{Network, State};
use crate::clock::Moment;
use crate::errno::Errno;
use crate::net::Task;
use crate::{Result, Rng};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of a thread.
type Id = u64;

/// The thread that the network did not start: the test's own.
const ROOT: Id = 0;

thread_local! {
    /// Who this thread is, where a network started it.
    static SELF: Cell<Id> = const { Cell::new(ROOT) };
}

/// Who runs and who waits.
#[derive(Default)]
pub(super) struct Turns {
    running: Id,
    waiting: BTreeMap<Id, Waiting>,
    ended: BTreeSet<Id>,
    started: Id,
    /// Counts what may end somebody's waiting.
    changes: u64,
    /// Everybody waits and nothing will ever happen.
    stuck: bool,
}

struct Waiting {
    /// When to look again, whatever happens.
    until: Moment,
    /// The changes that it knew when it began to wait; `None` where it has not begun to run.
    seen: Option<u64>,
}

impl Turns {
    /// Lets everybody who waits look again.
    pub(super) fn change(&mut self) {
        self.changes += 1;
    }

    fn pick(&self, now: Moment, rng: &mut Rng) -> Option<Id> {
        let ready = |(id, waiting): (&Id, &Waiting)| {
            let may = waiting.seen != Some(self.changes) || waiting.until <= now;
            may.then_some(*id)
        };
        let ready: Vec<Id> = self.waiting.iter().filter_map(ready).collect();
        ready.get(rng.index(ready.len())).copied()
    }
}

/// How far a call has come.
pub(super) enum Step<T> {
    Done(T),
    /// It has to look again when something has changed, or at this moment.
    Wait(Moment),
}

impl Network {
    /// Calls `attempt` until it is done, while other threads run and time passes. ETIMEDOUT where
    /// it is not done at the deadline.
    pub(super) fn wait<T>(
        &self,
        deadline: Moment,
        mut attempt: impl FnMut(&mut State) -> Step<T>,
    ) -> Result<T> {
        let me = SELF.get();
        let mut state = self.lock();
        assert!(
            state.turns.running == me,
            "a thread that the network did not start waits while another has the turn"
        );
        loop {
            let until = match attempt(&mut state) {
                Step::Done(answer) => return Ok(answer),
                Step::Wait(until) => until.min(deadline),
            };
            if state.now >= deadline {
                return Err(Errno::TIMEDOUT);
            }
            let seen = Some(state.turns.changes);
            state.turns.waiting.insert(me, Waiting { until, seen });
            state.pass_turn();
            state = self.await_turn(state, me);
        }
    }

    fn await_turn<'s>(
        &'s self,
        mut state: std::sync::MutexGuard<'s, State>,
        me: Id,
    ) -> std::sync::MutexGuard<'s, State> {
        self.shared.turn.notify_all();
        while state.turns.running != me {
            let woken = self.shared.turn.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.turns.waiting.remove(&me);
        if me == ROOT && std::mem::take(&mut state.turns.stuck) {
            drop(state);
            panic!("every thread waits, without a deadline, for what will never happen");
        }
        state
    }

    /// Starts a thread; it runs when it is its turn.
    pub(super) fn start_task(
        &self,
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Task>> {
        let mut state = self.lock();
        let id = state.turns.started + 1;
        let result = Arc::new(Mutex::new(None));
        let (network, answer) = (self.clone(), result.clone());
        let run = move || {
            SELF.set(id);
            drop(network.await_turn(network.lock(), id));
            let end = catch_unwind(AssertUnwindSafe(work));
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            let mut state = network.lock();
            state.turns.ended.insert(id);
            state.turns.change();
            state.pass_turn();
            network.shared.turn.notify_all();
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread
            .spawn(run)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        state.turns.started = id;
        let fresh = Waiting {
            until: Moment::NEVER,
            seen: None,
        };
        state.turns.waiting.insert(id, fresh);
        Ok(Box::new(SimTask {
            network: self.clone(),
            id,
            result,
        }))
    }
}

impl State {
    /// Gives the turn to somebody who can go on, and lets time pass until there is somebody.
    fn pass_turn(&mut self) {
        loop {
            if let Some(id) = self.turns.pick(self.now, &mut self.rng) {
                self.turns.running = id;
                return;
            }
            let timers = self.turns.waiting.values().map(|waiting| waiting.until);
            let next = timers.chain(self.wire.next_arrival()).min();
            match next {
                Some(next) if next != Moment::NEVER => {
                    self.now = self.now.max(next);
                    if self.wire.deliver(self.now, &mut self.rng) {
                        self.turns.change();
                    }
                }
                _ => {
                    self.turns.stuck = self.turns.waiting.contains_key(&ROOT);
                    self.turns.running = ROOT;
                    return;
                }
            }
        }
    }
}

struct SimTask {
    network: Network,
    id: Id,
    result: Arc<Mutex<Option<std::thread::Result<()>>>>,
}

impl Task for SimTask {
    fn join(self: Box<Self>) -> std::thread::Result<()> {
        let id = self.id;
        let ended = |state: &mut State| {
            if state.turns.ended.contains(&id) {
                Step::Done(())
            } else {
                Step::Wait(Moment::NEVER)
            }
        };
        let waited: Result<()> = self.network.wait(Moment::NEVER, ended);
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        match (waited, { result }.take()) {
            (Ok(()), Some(result)) => result,
            (waited, _) => Err(Box::new(waited)),
        }
    }
}
