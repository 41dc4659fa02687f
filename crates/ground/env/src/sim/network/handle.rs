//! What programs hold: simulated hosts, listeners and connections.

use super::turn::Step;
use super::wire::{EndId, Listening};
use super::{Network, State};
use crate::Result;
use crate::clock::Moment;
use crate::errno::Errno;
use crate::net::{Address, Bell, Listener, Net, Stream, Task};
use crate::poison::Poison;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A [`Network`] as one of its hosts sees it. When the host's process is killed or its power is
/// cut, this and what it gave answer ENODEV.
#[derive(Clone)]
pub struct SimNet {
    network: Network,
    host: String,
    life: u64,
}

impl SimNet {
    pub(super) fn new(network: Network, host: &str, life: u64) -> SimNet {
        SimNet {
            network,
            host: host.to_owned(),
            life,
        }
    }

    fn check_alive(&self, state: &State) -> Result<()> {
        let host = state.wire.hosts.get(&self.host);
        if host.is_some_and(|host| host.up && host.life == self.life) {
            Ok(())
        } else {
            Err(Errno::NODEV)
        }
    }

    /// As [`Network::wait`], while the host lives.
    fn wait<T>(
        &self,
        deadline: Moment,
        mut attempt: impl FnMut(&mut State) -> Step<Result<T>>,
    ) -> Result<T> {
        self.network.wait(deadline, |state| {
            if let Err(errno) = self.check_alive(state) {
                return Step::Done(Err(errno));
            }
            attempt(state)
        })?
    }

    fn stream(&self, end: EndId, peer: Address) -> Arc<dyn Stream> {
        Arc::new(SimStream {
            net: self.clone(),
            end,
            peer,
            out: Poison::default(),
        })
    }
}

/// How far an attempt to connect has come.
enum Attempt {
    /// The request is on its way.
    Asks,
    /// The answer is on its way.
    Answered(Result<EndId>),
}

impl Net for SimNet {
    fn listen(&self, at: &Address) -> Result<Arc<dyn Listener>> {
        let mut state = self.network.lock();
        self.check_alive(&state)?;
        if at.host != self.host {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let mut address = at.clone();
        if address.port == 0 {
            address.port = state.wire.next_port(&self.host);
        }
        if state.wire.listeners.contains_key(&address) {
            return Err(Errno::ADDRINUSE);
        }
        let id = state.wire.next_listener();
        let listening = Listening {
            id,
            queue: VecDeque::new(),
        };
        state.wire.listeners.insert(address.clone(), listening);
        let net = self.clone();
        Ok(Arc::new(SimListener { net, address, id }))
    }

    fn connect(&self, to: &Address, deadline: Moment) -> Result<Arc<dyn Stream>> {
        let mut attempt = Attempt::Asks;
        let mut arrives = None;
        let end = self.wait(deadline, |state| {
            let State { now, rng, wire, .. } = state;
            if !wire.hosts.contains_key(&to.host) {
                return Step::Done(Err(Errno::HOSTUNREACH));
            }
            if !wire.is_open(&self.host, &to.host) || !wire.is_open(&to.host, &self.host) {
                // It is repeated once it can get through.
                arrives = None;
                return Step::Wait(Moment::NEVER);
            }
            let due = *arrives.get_or_insert_with(|| now.after(wire.delay(rng)));
            if *now < due {
                return Step::Wait(due);
            }
            match &attempt {
                Attempt::Answered(answer) => Step::Done(*answer),
                Attempt::Asks => match wire.open(&self.host, to) {
                    None => Step::Wait(Moment::NEVER),
                    Some(answer) => {
                        let due = now.after(wire.delay(rng));
                        arrives = Some(due);
                        attempt = Attempt::Answered(answer);
                        state.turns.change();
                        Step::Wait(due)
                    }
                },
            }
        });
        match (end, attempt) {
            (Ok(end), _) => Ok(self.stream(end, to.clone())),
            (Err(errno), Attempt::Answered(Ok(end))) => {
                // The other side may have it already; it finds it ended.
                drop(self.stream(end, to.clone()));
                Err(errno)
            }
            (Err(errno), _) => Err(errno),
        }
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Task>> {
        self.check_alive(&self.network.lock())?;
        self.network.start_task(name, work)
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(SimBell {
            net: self.clone(),
            rings: AtomicU64::new(0),
        })
    }
}

struct SimBell {
    net: SimNet,
    rings: AtomicU64,
}

impl Bell for SimBell {
    fn count(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::AcqRel);
        self.net.network.lock().turns.change();
    }

    fn wait(&self, seen: u64, deadline: Moment) -> Result<()> {
        self.net.wait(deadline, |_| {
            if self.count() > seen {
                Step::Done(Ok(()))
            } else {
                Step::Wait(Moment::NEVER)
            }
        })
    }
}

struct SimListener {
    net: SimNet,
    address: Address,
    /// Its number, since another may have the address when this one is closed.
    id: u64,
}

impl Listener for SimListener {
    fn address(&self) -> &Address {
        &self.address
    }

    fn accept(&self, deadline: Moment) -> Result<Arc<dyn Stream>> {
        let end = self.net.wait(deadline, |state| {
            let listening = state.wire.listeners.get_mut(&self.address);
            let Some(listening) = listening.filter(|listening| listening.id == self.id) else {
                return Step::Done(Err(Errno::CANCELED));
            };
            match listening.queue.pop_front() {
                Some(end) => {
                    // There is room for another.
                    state.turns.change();
                    let peer = state.wire.ends.get(&end).map(|end| end.peer.clone());
                    Step::Done(peer.map(|peer| (end, peer)).ok_or(Errno::CONNABORTED))
                }
                None => Step::Wait(Moment::NEVER),
            }
        });
        end.map(|(end, peer)| self.net.stream(end, peer))
    }

    fn close(&self) {
        let mut state = self.net.network.lock();
        let listening = state.wire.listeners.get(&self.address);
        if listening.is_some_and(|listening| listening.id == self.id) {
            state.stop_listening(&self.address);
        }
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.close();
    }
}

struct SimStream {
    net: SimNet,
    end: EndId,
    peer: Address,
    /// Of the direction out: the first failed send, or the end of it.
    out: Poison,
}

impl SimStream {
    fn wait<T>(
        &self,
        deadline: Moment,
        mut attempt: impl FnMut(&mut State) -> Option<Result<T>>,
    ) -> Result<T> {
        self.net.wait(deadline, |state| {
            let end = state.wire.ends.get(&self.end);
            if end.is_none_or(|end| end.closed) {
                return Step::Done(Err(Errno::CANCELED));
            }
            match attempt(state) {
                Some(answer) => Step::Done(answer),
                None => Step::Wait(Moment::NEVER),
            }
        })
    }
}

impl Stream for SimStream {
    fn peer(&self) -> &Address {
        &self.peer
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> Result<usize> {
        if buffer.is_empty() {
            return Err(Errno::INVAL);
        }
        self.wait(deadline, |state| {
            let answer = state.wire.receive(self.end, buffer)?;
            // There is room for more.
            state.turns.change();
            Some(answer)
        })
    }

    fn send(&self, data: &[u8], deadline: Moment) -> Result<()> {
        self.out.check()?;
        let mut left = data;
        self.out.synced(self.wait(deadline, |state| {
            let State { now, rng, wire, .. } = state;
            while !left.is_empty() {
                match wire.send(self.end, left, *now, rng)? {
                    Ok(count) => left = left.get(count..).unwrap_or(&[]),
                    Err(errno) => return Some(Err(errno)),
                }
            }
            Some(Ok(()))
        }))
    }

    fn finish(&self) -> Result<()> {
        self.out.check()?;
        let answer = self.wait(Moment(0), |state| Some(state.finish(self.end)));
        // Nothing is sent after it, whether it failed or not.
        let _ = self.out.synced(answer.and(Err(Errno::CANCELED)));
        answer
    }

    fn close(&self) {
        let mut state = self.net.network.lock();
        if self.net.check_alive(&state).is_ok() {
            state.close(self.end);
        }
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.close();
    }
}
