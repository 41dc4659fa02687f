//! What goes wrong, to order.

use super::wire::{EndId, Host, Item, PlannedCut};
use super::{Conditions, Network, State};
use crate::Result;
use crate::errno::Errno;
use crate::net::Address;

impl Network {
    /// Changes how the network is from here on.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.lock().wire.conditions = conditions;
    }

    /// Lets nothing through between two hosts. What is sent meanwhile arrives after
    /// [`heal`](Network::heal), unless somebody gives up before.
    pub fn part(&self, a: &str, b: &str) {
        self.set_way(a, b, false);
        self.set_way(b, a, false);
    }

    /// Ends a partition.
    pub fn heal(&self, a: &str, b: &str) {
        self.set_way(a, b, true);
        self.set_way(b, a, true);
    }

    /// Whether anything gets through from one host to another; the way back is its own. To connect
    /// takes both.
    pub fn set_way(&self, from: &str, to: &str, open: bool) {
        let mut state = self.lock();
        let way = (from.to_owned(), to.to_owned());
        if open && state.wire.parted.remove(&way) {
            state.repeat_later(|sender, receiver| sender == from && receiver == to);
        } else if !open {
            state.wire.parted.insert(way);
        }
        state.turns.change();
    }

    /// Loses all connections between two hosts. Of what is on its way a part arrives, as chance has
    /// it.
    pub fn cut(&self, a: &str, b: &str) {
        let mut state = self.lock();
        let between = |x: &str, y: &str| (x == a && y == b) || (x == b && y == a);
        let ends = state.ends(between);
        for id in &ends {
            state.lose_some(*id);
        }
        for id in ends {
            let State { now, rng, wire, .. } = &mut *state;
            wire.sever(id, *now, rng);
        }
    }

    /// Loses a connection when so many bytes have been sent from one host to another, counted from
    /// here over all their connections. Of the connection's bytes up to there none is missing.
    pub fn cut_after(&self, from: &str, to: &str, bytes: usize) {
        self.lock().wire.cuts.push(PlannedCut {
            from: from.to_owned(),
            to: to.to_owned(),
            bytes_left: bytes,
        });
    }

    /// Kills the process on a host but not the host: its handles die, and its kernel closes its
    /// connections.
    pub fn kill(&self, host: &str) {
        let mut state = self.lock();
        let addresses: Vec<Address> = state.wire.listeners.keys().cloned().collect();
        for address in addresses.iter().filter(|address| address.host == host) {
            state.stop_listening(address);
        }
        state.end_life(host);
        for id in state.ends(|_, receiver| receiver == host) {
            state.close(id);
        }
    }

    /// Cuts a host's power: its handles die, and its peers hear nothing of it. Started again by
    /// [`Network::host`] it does not know their connections, and says so when they send.
    pub fn crash(&self, host: &str) {
        let mut state = self.lock();
        state.end_life(host);
        let listeners = &mut state.wire.listeners;
        listeners.retain(|address, _| address.host != host);
        if let Some(host) = state.wire.hosts.get_mut(host) {
            host.up = false;
        }
        for id in state.ends(|_, receiver| receiver == host) {
            if let Some(end) = state.wire.ends.get_mut(&id) {
                (end.closed, end.gone, end.finished) = (true, true, true);
                end.inbox.clear();
                let other = end.other;
                state.lose_some(other);
            }
        }
    }
}

impl State {
    /// Starts a host, where it is not up; says which of its lives it lives.
    pub(super) fn start(&mut self, name: &str) -> u64 {
        let host = self.wire.hosts.entry(name.to_owned()).or_insert(Host {
            life: 0,
            up: false,
            port_last: 0,
        });
        let life = host.life;
        if !std::mem::replace(&mut host.up, true) {
            self.repeat_later(|_, receiver| receiver == name);
            self.turns.change();
        }
        life
    }

    /// All handles of a host die.
    fn end_life(&mut self, name: &str) {
        if let Some(host) = self.wire.hosts.get_mut(name) {
            host.life += 1;
        }
        self.turns.change();
    }

    /// The ends of connections whose sender and receiver (what travels to an end goes from the one
    /// to the other) are as asked.
    fn ends(&self, wanted: impl Fn(&str, &str) -> bool) -> Vec<EndId> {
        let ends = self.wire.ends.iter();
        ends.filter(|(_, end)| wanted(&end.peer.host, &end.host))
            .map(|(id, _)| *id)
            .collect()
    }

    /// What could not get through is sent again.
    fn repeat_later(&mut self, wanted: impl Fn(&str, &str) -> bool) {
        for id in self.ends(wanted) {
            let moment = self.now.after(self.wire.delay(&mut self.rng));
            if let Some(end) = self.wire.ends.get_mut(&id) {
                end.hold_until(moment);
            }
        }
    }

    /// Of what travels to an end the last part never arrives, and nothing after it.
    fn lose_some(&mut self, id: EndId) {
        let Some(end) = self.wire.ends.get_mut(&id) else {
            return;
        };
        let kept = self.rng.index(end.on_the_way.len() + 1);
        end.on_the_way.truncate(kept);
        if let Some((_, Item::Bytes(bytes))) = end.on_the_way.back_mut() {
            bytes.truncate(self.rng.index(bytes.len() + 1));
        }
    }

    /// Nobody listens at `address` any more; connections that nobody accepted are lost.
    pub(super) fn stop_listening(&mut self, address: &Address) {
        let listening = self.wire.listeners.remove(address);
        for id in listening.into_iter().flat_map(|listening| listening.queue) {
            self.wire.reset(id, self.now, &mut self.rng);
            self.close(id);
        }
        self.turns.change();
    }

    pub(super) fn finish(&mut self, id: EndId) -> Result<()> {
        let end = self.wire.ends.get_mut(&id).ok_or(Errno::CANCELED)?;
        if end.lost {
            return Err(Errno::CONNRESET);
        }
        end.finished = true;
        self.wire.launch(id, Item::Finish, self.now, &mut self.rng);
        Ok(())
    }

    pub(super) fn close(&mut self, id: EndId) {
        self.wire.close(id, self.now, &mut self.rng);
        self.turns.change();
    }
}
