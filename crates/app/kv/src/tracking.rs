//! Who keeps copies of which keys: client-side caching (Redis, `src/tracking.c`).

use crate::session::{ClientId, Token};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of keys and clients that the table may have for each key that it may have, on average.
const ENTRY_BYTES: usize = 512;

/// Bytes of keys that wait to be told of before clients are told that all keys changed.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// Clients that read a key, in their order.
pub(crate) type Readers = SmallVec<[ClientId; 2]>;

/// Beginnings of keys.
pub(crate) type Prefixes = BTreeSet<Box<[u8]>>;

/// When what a client reads is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Remember {
    /// Always.
    #[default]
    All,
    /// Behind CLIENT CACHING YES alone.
    OptIn,
    /// But behind CLIENT CACHING NO.
    OptOut,
}

/// A client that is told in place of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Redirect {
    pub(crate) client: ClientId,
    pub(crate) token: Token,
    /// Whether it has ended.
    pub(crate) gone: bool,
}

/// What a client asked of CLIENT TRACKING.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    pub(crate) token: Token,
    pub(crate) remember: Remember,
    /// Whether CLIENT CACHING was said for the next command.
    pub(crate) caching: bool,
    /// Whether it hears nothing of what it changes itself.
    pub(crate) no_loop: bool,
    /// Who is told in its place.
    pub(crate) redirect: Option<Redirect>,
    /// Whether that one was gone when it was to be told.
    pub(crate) broken: bool,
    /// Of which keys it is told, read or not; none where it is told of what it read.
    pub(crate) prefixes: Option<Prefixes>,
}

/// What a client is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// A key changed.
    Key(Arc<[u8]>),
    /// Keys changed: an array of the protocol.
    Keys(Arc<[u8]>),
    /// All keys may have changed.
    All,
}

impl News {
    fn bytes(&self) -> usize {
        match self {
            News::Key(bytes) | News::Keys(bytes) => bytes.len() + 64,
            News::All => 64,
        }
    }
}

/// A key that somebody has read.
#[derive(Debug)]
struct Read {
    /// Its place among all, the oldest first.
    number: u64,
    by: Readers,
}

/// All that clients are to be told of.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    clients: HashMap<ClientId, Tracker>,
    reads: HashMap<Arc<[u8]>, Read>,
    by_age: BTreeMap<u64, Arc<[u8]>>,
    next_number: u64,
    /// Of `reads`: pairs of a key and a client.
    items: usize,
    /// Of `reads`: bytes of keys and clients.
    bytes: usize,
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<ClientId>>,
    /// Keys that changed since the last broadcast, and who changed them last.
    changed: BTreeMap<Arc<[u8]>, Option<ClientId>>,
    changed_bytes: usize,
    /// News of clients whose command is under way: they come behind its reply.
    pending: Vec<(ClientId, News)>,
    pending_bytes: usize,
}

impl Tracking {
    /// Whether anybody is to be told of anything.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(crate) fn of(&self, client: ClientId) -> Option<&Tracker> {
        self.clients.get(&client)
    }

    pub(crate) fn of_mut(&mut self, client: ClientId) -> Option<&mut Tracker> {
        self.clients.get_mut(&client)
    }

    /// Clients that are told.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.keys().copied()
    }

    /// Numbers of clients, of keys that were read, of pairs of both, and of prefixes.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let (clients, keys) = (self.clients.len(), self.reads.len());
        [clients, keys, self.items, self.prefixes.len()]
    }

    /// A client is told from now on.
    pub(crate) fn begin(&mut self, client: ClientId, mut tracker: Tracker) {
        let before = self.clients.remove(&client);
        tracker.caching = before.as_ref().is_some_and(|before| before.caching);
        if let Some(prefixes) = &mut tracker.prefixes {
            for prefix in &*prefixes {
                let clients = self.prefixes.entry(prefix.clone()).or_default();
                clients.insert(client);
            }
            prefixes.extend(
                before
                    .and_then(|before| before.prefixes)
                    .unwrap_or_default(),
            );
        }
        self.clients.insert(client, tracker);
    }

    /// A client is told nothing more.
    pub(crate) fn end(&mut self, client: ClientId) {
        let Some(tracker) = self.clients.remove(&client) else {
            return;
        };
        for prefix in tracker.prefixes.unwrap_or_default() {
            if let Some(clients) = self.prefixes.get_mut(&prefix) {
                clients.remove(&client);
                if clients.is_empty() {
                    self.prefixes.remove(&prefix);
                }
            }
        }
        self.pending.retain(|(to, _)| *to != client);
        if self.clients.is_empty() {
            *self = Tracking::default();
        }
    }

    /// A client has ended: nobody can be told in place of others there.
    pub(crate) fn note_gone(&mut self, client: ClientId) {
        let redirects = self.clients.values_mut();
        let redirects = redirects.filter_map(|tracker| tracker.redirect.as_mut());
        for redirect in redirects.filter(|redirect| redirect.client == client) {
            redirect.gone = true;
        }
    }

    /// A client has read a key.
    pub(crate) fn note_read(&mut self, client: ClientId, key: &[u8]) {
        let new = !self.reads.contains_key(key);
        if new {
            let key: Arc<[u8]> = key.into();
            self.by_age.insert(self.next_number, key.clone());
            self.bytes += key.len();
            let number = self.next_number;
            let by = Readers::new();
            self.reads.insert(key, Read { number, by });
            self.next_number += 1;
        }
        if let Some(read) = self.reads.get_mut(key)
            && let Err(at) = read.by.binary_search(&client)
        {
            read.by.insert(at, client);
            self.items += 1;
            self.bytes += size_of::<ClientId>();
        }
    }

    /// The key that was read first, where there are more than `keys_max`; 0 is for any number.
    pub(crate) fn surplus(&self, keys_max: usize) -> Option<Arc<[u8]>> {
        let bytes_max = keys_max.saturating_mul(ENTRY_BYTES);
        let fits = self.reads.len() <= keys_max && self.bytes <= bytes_max;
        match keys_max == 0 || fits {
            true => None,
            false => self.by_age.values().next().cloned(),
        }
    }

    /// A key is as nobody has read it. Who has to be told.
    pub(crate) fn forget(&mut self, key: &[u8]) -> Option<(Arc<[u8]>, Readers)> {
        let (key, read) = self.reads.remove_entry(key)?;
        self.by_age.remove(&read.number);
        self.items -= read.by.len();
        self.bytes -= key.len() + read.by.len() * size_of::<ClientId>();
        Some((key, read.by))
    }

    /// All keys are as nobody has read them.
    pub(crate) fn forget_all(&mut self) {
        self.reads = HashMap::default();
        self.by_age.clear();
        (self.items, self.bytes) = (0, 0);
    }

    /// A key was changed; whether it is time to broadcast.
    pub(crate) fn note_changed(&mut self, key: &[u8], by: Option<ClientId>) -> bool {
        if self.prefixes.is_empty() {
            return false;
        }
        if self.changed.insert(key.into(), by).is_none() {
            self.changed_bytes += key.len() + 64;
        }
        self.changed_bytes > PENDING_BYTES_MAX
    }

    /// Whether [`Tracking::broadcasts`] has something.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What clients are to be told of keys that changed, one message for each prefix.
    pub(crate) fn broadcasts(&mut self) -> Vec<(ClientId, News)> {
        self.changed_bytes = 0;
        let changed = std::mem::take(&mut self.changed);
        let mut news = Vec::new();
        for (prefix, clients) in &self.prefixes {
            let from = (Bound::Included(&**prefix), Bound::Unbounded);
            let range = changed.range::<[u8], _>(from);
            let keys = range.take_while(|(key, _)| key.starts_with(prefix));
            let keys: Vec<_> = keys.map(|(key, by)| (key, *by)).collect();
            if keys.is_empty() {
                continue;
            }
            let all = array(keys.iter().map(|(key, _)| &***key));
            for client in clients {
                let tracker = self.clients.get(client);
                let own = tracker.filter(|tracker| tracker.no_loop).map(|_| *client);
                let told = match own {
                    None => Some(all.clone()),
                    Some(_) => {
                        let others = keys.iter().filter(|(_, by)| *by != own);
                        let others: Vec<&[u8]> = others.map(|(key, _)| &***key).collect();
                        (!others.is_empty()).then(|| array(others.into_iter()))
                    }
                };
                news.extend(told.map(|keys| (*client, News::Keys(keys))));
            }
        }
        news
    }

    /// Keeps news until the command of the client has its reply.
    pub(crate) fn put_off(&mut self, client: ClientId, news: News) {
        self.pending_bytes += news.bytes();
        self.pending.push((client, news));
        if self.pending_bytes > PENDING_BYTES_MAX {
            // Who forgets all its copies has none that is old.
            let clients: BTreeSet<ClientId> = self.pending.drain(..).map(|(to, _)| to).collect();
            let all = clients.into_iter().map(|client| (client, News::All));
            self.pending.extend(all);
            self.pending_bytes = 0;
        }
    }

    /// Whether [`Tracking::take_pending`] has something.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) fn take_pending(&mut self) -> Vec<(ClientId, News)> {
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

/// Keys as an array of the protocol.
fn array<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Arc<[u8]> {
    let mut reply = crate::protocol::Reply::default();
    reply.array(keys.len());
    keys.for_each(|key| reply.bulk(key));
    reply.take().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(prefixes: Option<&[&str]>) -> Tracker {
        Tracker {
            token: Token(0),
            remember: Remember::All,
            caching: false,
            no_loop: false,
            redirect: None,
            broken: false,
            prefixes: prefixes.map(|all| all.iter().map(|one| one.as_bytes().into()).collect()),
        }
    }

    #[test]
    fn the_table_is_bounded_by_keys_and_by_bytes_and_the_oldest_goes() {
        let mut tracking = Tracking::default();
        tracking.begin(ClientId(1), tracker(None));
        for number in 0..10 {
            tracking.note_read(ClientId(1), format!("key:{number}").as_bytes());
            tracking.note_read(ClientId(2), b"key:0");
        }
        assert_eq!(tracking.counts(), [1, 10, 11, 0]);
        assert_eq!(tracking.surplus(10), None);
        assert_eq!(tracking.surplus(0), None);
        assert_eq!(tracking.surplus(9).as_deref(), Some(&b"key:0"[..]));
        let told = tracking.forget(b"key:0").unwrap().1;
        assert_eq!(told.as_slice(), [ClientId(1), ClientId(2)]);
        assert_eq!(tracking.counts(), [1, 9, 9, 0]);
        tracking.note_read(ClientId(1), &[b'x'; 10 * ENTRY_BYTES]);
        assert_eq!(tracking.surplus(10).as_deref(), Some(&b"key:1"[..]));
        (0..10).for_each(|number| drop(tracking.forget(format!("key:{number}").as_bytes())));
        tracking.forget(&[b'x'; 10 * ENTRY_BYTES]).unwrap();
        assert_eq!((tracking.items, tracking.bytes), (0, 0));
        assert!(tracking.by_age.is_empty());
    }

    #[test]
    fn too_many_news_become_one_that_says_more() {
        let mut tracking = Tracking::default();
        tracking.begin(ClientId(1), tracker(None));
        let key: Arc<[u8]> = vec![b'k'; 1 << 20].into();
        (0..40).for_each(|_| tracking.put_off(ClientId(1), News::Key(key.clone())));
        let pending = tracking.take_pending();
        assert!(pending.len() < 20, "{}", pending.len());
        assert_eq!(pending[0], (ClientId(1), News::All));
    }

    #[test]
    fn the_end_of_the_last_client_leaves_nothing() {
        let mut tracking = Tracking::default();
        tracking.begin(ClientId(1), tracker(Some(&["a", "b"])));
        tracking.begin(ClientId(1), tracker(Some(&["c"])));
        tracking.begin(ClientId(2), tracker(Some(&["c"])));
        assert_eq!(tracking.counts(), [2, 0, 0, 3]);
        assert!(!tracking.note_changed(b"cat", None));
        let told: Vec<_> = tracking.broadcasts();
        let cat = News::Keys(b"*1\r\n$3\r\ncat\r\n"[..].into());
        assert_eq!(told, [(ClientId(1), cat.clone()), (ClientId(2), cat)]);
        tracking.end(ClientId(1));
        assert_eq!(tracking.counts(), [1, 0, 0, 1]);
        tracking.end(ClientId(2));
        assert_eq!(tracking.counts(), [0; 4]);
        assert!(!tracking.is_on());
    }
}
