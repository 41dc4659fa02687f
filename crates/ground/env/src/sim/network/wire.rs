//! What is on its way between hosts, and what has arrived. Nothing here waits.

use super::Conditions;
use crate::clock::Moment;
use crate::errno::Errno;
use crate::net::{Address, BACKLOG};
use crate::{Result, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Bytes of one direction of a connection that are sent and not received: what the buffers of both
/// hosts would hold.
pub(super) const WINDOW_BYTES: usize = 64 << 10;

/// The first port for those who do not care (RFC 6335, section 6).
const PORT_MIN: u16 = 49152;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EndId(u64);

pub(super) enum Item {
    Bytes(Vec<u8>),
    Finish,
    Reset,
}

/// One end of a connection, with what travels to it.
pub(super) struct End {
    pub(super) host: String,
    pub(super) peer: Address,
    pub(super) other: EndId,
    pub(super) on_the_way: VecDeque<(Moment, Item)>,
    /// Bytes that are sent to it and not received.
    unreceived: usize,
    pub(super) inbox: VecDeque<u8>,
    /// The peer's finish has arrived.
    finish_arrived: bool,
    /// A reset has arrived.
    pub(super) lost: bool,
    /// This side sends no more.
    pub(super) finished: bool,
    /// Nobody holds it any more; bytes that arrive are answered with a reset.
    pub(super) closed: bool,
    /// Its host does not know of it any more; whatever arrives is answered with a reset.
    pub(super) gone: bool,
    /// The network has lost the connection: nothing that is sent from here gets on its way.
    pub(super) severed: bool,
}

#[derive(Default)]
pub(super) struct Host {
    /// Counts its lives; handles of an earlier one are dead.
    pub(super) life: u64,
    pub(super) up: bool,
    pub(super) port_last: u16,
}

pub(super) struct Listening {
    pub(super) id: u64,
    /// Connections that nobody has accepted.
    pub(super) queue: VecDeque<EndId>,
}

/// A connection to be lost.
pub(super) struct PlannedCut {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) bytes_left: usize,
}

#[derive(Default)]
pub(super) struct Wire {
    pub(super) conditions: Conditions,
    pub(super) hosts: BTreeMap<String, Host>,
    pub(super) ends: BTreeMap<EndId, End>,
    pub(super) listeners: BTreeMap<Address, Listening>,
    /// Ways on which nothing gets through: from, to.
    pub(super) parted: BTreeSet<(String, String)>,
    pub(super) cuts: Vec<PlannedCut>,
    ends_made: u64,
    listeners_made: u64,
}

impl Wire {
    pub(super) fn delay(&self, rng: &mut Rng) -> Duration {
        let (least, most) = (self.conditions.delay_min, self.conditions.delay_max);
        let spread = most.saturating_sub(least).as_nanos() as u64;
        least + Duration::from_nanos(rng.below(spread.saturating_add(1)))
    }

    /// Whether what is sent arrives at all.
    pub(super) fn is_open(&self, from: &str, to: &str) -> bool {
        let up = self.hosts.get(to).is_some_and(|host| host.up);
        up && !self.parted.contains(&(from.to_owned(), to.to_owned()))
    }

    pub(super) fn next_listener(&mut self) -> u64 {
        self.listeners_made += 1;
        self.listeners_made
    }

    pub(super) fn next_port(&mut self, host: &str) -> u16 {
        let used = |port| self.listeners.contains_key(&Address::new(host, port));
        let last = self.hosts.get(host).map_or(0, |host| host.port_last);
        let mut port = last;
        loop {
            port = port.wrapping_add(1).max(PORT_MIN);
            if !used(port) || port == last {
                break;
            }
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.port_last = port;
        }
        port
    }

    /// Connects `host` to a listener: the client's end. `None` while the listener's queue is full.
    pub(super) fn open(&mut self, host: &str, to: &Address) -> Option<Result<EndId>> {
        let Some(listening) = self.listeners.get(to) else {
            return Some(Err(Errno::CONNREFUSED));
        };
        if listening.queue.len() >= BACKLOG {
            return None;
        }
        let port = self.next_port(host);
        let (client, server) = (EndId(self.ends_made), EndId(self.ends_made + 1));
        self.ends_made += 2;
        let end = |host: &str, peer: Address, other| End {
            host: host.to_owned(),
            peer,
            other,
            on_the_way: VecDeque::new(),
            unreceived: 0,
            inbox: VecDeque::new(),
            finish_arrived: false,
            lost: false,
            finished: false,
            closed: false,
            gone: false,
            severed: false,
        };
        self.ends.insert(client, end(host, to.clone(), server));
        let from = Address::new(host, port);
        self.ends.insert(server, end(&to.host, from, client));
        if let Some(listening) = self.listeners.get_mut(to) {
            listening.queue.push_back(server);
        }
        Some(Ok(client))
    }

    /// Takes as much of `data` as there is room for. `None` while there is none.
    pub(super) fn send(
        &mut self,
        id: EndId,
        data: &[u8],
        now: Moment,
        rng: &mut Rng,
    ) -> Option<Result<usize>> {
        let end = self.ends.get(&id)?;
        if end.lost {
            return Some(Err(Errno::CONNRESET));
        }
        let room = self.ends.get(&end.other).map_or(0, End::room);
        let most = data.len().min(self.conditions.segment_bytes_max).min(room);
        if most == 0 {
            return None;
        }
        let count = 1 + rng.index(most);
        let (sent, cut) = match self.planned_cut(id, count) {
            Some(kept) => (kept, true),
            None if self.conditions.cut_one_in > 0 && rng.chance(1, self.conditions.cut_one_in) => {
                (rng.index(count + 1), true)
            }
            None => (count, false),
        };
        let bytes = data.get(..sent).unwrap_or(data).to_vec();
        self.launch(id, Item::Bytes(bytes), now, rng);
        if cut {
            self.sever(id, now, rng);
        }
        Some(Ok(count))
    }

    /// How many of `count` bytes get through, where a cut is planned for one of them.
    fn planned_cut(&mut self, id: EndId, count: usize) -> Option<usize> {
        let end = self.ends.get(&id).filter(|end| !end.severed)?;
        let here = |cut: &PlannedCut| cut.from == end.host && cut.to == end.peer.host;
        let due = |cut: &PlannedCut| here(cut) && cut.bytes_left <= count;
        let cut = self.cuts.iter().position(due);
        let cut = cut.map(|index| self.cuts.remove(index).bytes_left);
        for later in self.cuts.iter_mut().filter(|cut| here(cut)) {
            later.bytes_left = later.bytes_left.saturating_sub(count);
        }
        cut
    }

    /// Sends `item` from an end to its peer.
    pub(super) fn launch(&mut self, from: EndId, item: Item, now: Moment, rng: &mut Rng) {
        let delay = self.delay(rng);
        let from = self.ends.get(&from).filter(|end| !end.severed);
        let Some(other) = from.map(|end| end.other) else {
            return;
        };
        if let Some(other) = self.ends.get_mut(&other) {
            if let Item::Bytes(bytes) = &item {
                other.unreceived += bytes.len();
            }
            // Whatever it overtakes on the way, it arrives behind what was sent before.
            other.on_the_way.push_back((now.after(delay), item));
        }
    }

    /// Loses a connection: what is on its way arrives, and after it a reset, on either side.
    pub(super) fn sever(&mut self, id: EndId, now: Moment, rng: &mut Rng) {
        let Some(other) = self.ends.get(&id).map(|end| end.other) else {
            return;
        };
        self.reset(id, now, rng);
        self.reset(other, now, rng);
    }

    /// What has arrived, or how it ended. `None` while there is nothing.
    pub(super) fn receive(&mut self, id: EndId, buffer: &mut [u8]) -> Option<Result<usize>> {
        let end = self.ends.get_mut(&id)?;
        let count = buffer.len().min(end.inbox.len());
        if count > 0 {
            for (to, byte) in buffer.iter_mut().zip(end.inbox.drain(..count)) {
                *to = byte;
            }
            end.unreceived -= count;
            return Some(Ok(count));
        }
        if end.lost {
            Some(Err(Errno::CONNRESET))
        } else {
            end.finish_arrived.then_some(Ok(0))
        }
    }

    /// As the kernel does when the last handle is gone: unread bytes make it a reset (RFC 2525,
    /// section 2.17).
    pub(super) fn close(&mut self, id: EndId, now: Moment, rng: &mut Rng) {
        let Some(end) = self.ends.get_mut(&id).filter(|end| !end.closed) else {
            return;
        };
        end.closed = true;
        let unread = !end.inbox.is_empty();
        let finished = std::mem::replace(&mut end.finished, true);
        end.inbox.clear();
        let other = end.other;
        if unread {
            self.reset(id, now, rng);
        } else if !finished {
            self.launch(id, Item::Finish, now, rng);
        }
        if self.ends.get(&other).is_none_or(|other| other.closed) {
            self.ends.remove(&id);
            self.ends.remove(&other);
        }
    }

    /// Tells the peer that the connection is lost, and no more.
    pub(super) fn reset(&mut self, id: EndId, now: Moment, rng: &mut Rng) {
        self.launch(id, Item::Reset, now, rng);
        if let Some(end) = self.ends.get_mut(&id) {
            end.severed = true;
        }
    }

    /// When the next thing arrives.
    pub(super) fn next_arrival(&self) -> Option<Moment> {
        let open = |end: &&End| self.is_open(&end.peer.host, &end.host);
        let heads = self.ends.values().filter(open);
        heads.filter_map(End::next_arrival).min()
    }

    /// Lets arrive what is due; says whether something did.
    pub(super) fn deliver(&mut self, now: Moment, rng: &mut Rng) -> bool {
        let mut delivered = false;
        let ids: Vec<EndId> = self.ends.keys().copied().collect();
        for id in ids {
            while let Some(item) = self.take_due(id, now) {
                self.arrive(id, item, now, rng);
                delivered = true;
            }
        }
        delivered
    }

    fn take_due(&mut self, id: EndId, now: Moment) -> Option<Item> {
        let end = self.ends.get(&id)?;
        let due = end.next_arrival().is_some_and(|arrival| arrival <= now);
        if !due || !self.is_open(&end.peer.host, &end.host) {
            return None;
        }
        let (_, item) = self.ends.get_mut(&id)?.on_the_way.pop_front()?;
        Some(item)
    }

    fn arrive(&mut self, id: EndId, item: Item, now: Moment, rng: &mut Rng) {
        let Some(end) = self.ends.get_mut(&id) else {
            return;
        };
        match item {
            Item::Bytes(_) if end.closed => self.reset(id, now, rng),
            Item::Finish if end.gone => self.reset(id, now, rng),
            Item::Bytes(bytes) => end.inbox.extend(bytes),
            Item::Finish => end.finish_arrived = true,
            Item::Reset => {
                end.lost = true;
                // Some kernels let the program read what had arrived before, others do not.
                if rng.chance(1, 2) {
                    end.inbox.clear();
                }
            }
        }
    }
}

impl End {
    fn next_arrival(&self) -> Option<Moment> {
        self.on_the_way.front().map(|(arrival, _)| *arrival)
    }

    /// Bytes that its peer may send.
    fn room(&self) -> usize {
        WINDOW_BYTES.saturating_sub(self.unreceived)
    }

    /// Nothing that is on its way arrives before `moment`.
    pub(super) fn hold_until(&mut self, moment: Moment) {
        for (arrival, _) in &mut self.on_the_way {
            *arrival = moment.max(*arrival);
        }
    }
}
