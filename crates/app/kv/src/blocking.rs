//! Commands that wait for a key: who waits, in which order, and until when.

use crate::session::{ClientId, Token};
use crate::transaction::Place;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A command that waits.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    /// What to try again.
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) places: Vec<Place>,
    /// When it gives up, in milliseconds since 1970.
    pub(crate) until_ms: Option<u64>,
    /// What it answers then.
    pub(crate) timeout: Timeout,
}

/// What a command answers when its time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    NullArray,
    Null,
}

/// Who waits for which key, the longest first.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    by_place: HashMap<Place, VecDeque<Token>>,
    deadlines: BTreeMap<(u64, ClientId), Token>,
    /// Keys that were changed since it was last looked.
    pub(crate) ready: Vec<Place>,
    pub(crate) count: usize,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn add(&mut self, token: Token, id: ClientId, blocked: &Blocked) {
        self.count += 1;
        for place in &blocked.places {
            let queue = self.by_place.entry(place.clone()).or_default();
            if !queue.contains(&token) {
                queue.push_back(token);
            }
        }
        if let Some(until) = blocked.until_ms {
            self.deadlines.insert((until, id), token);
        }
    }

    pub(crate) fn remove(&mut self, token: Token, id: ClientId, blocked: &Blocked) {
        self.count = self.count.saturating_sub(1);
        for place in &blocked.places {
            if let Some(queue) = self.by_place.get_mut(place) {
                queue.retain(|other| *other != token);
                if queue.is_empty() {
                    self.by_place.remove(place);
                }
            }
        }
        if let Some(until) = blocked.until_ms {
            self.deadlines.remove(&(until, id));
        }
    }

    /// A key was changed.
    pub(crate) fn changed(&mut self, place: &Place) {
        if self.by_place.contains_key(place) && !self.ready.contains(place) {
            self.ready.push(place.clone());
        }
    }

    /// All keys with waiters, of a database or of all, were changed.
    pub(crate) fn all_changed(&mut self, database: Option<u8>) {
        let keys = self.by_place.keys();
        let of = keys.filter(|place| database.is_none_or(|database| place.0 == database));
        self.ready = of.cloned().collect();
    }

    pub(crate) fn waiting(&self, place: &Place) -> Vec<Token> {
        let queue = self.by_place.get(place);
        queue
            .map(|queue| queue.iter().copied().collect())
            .unwrap_or_default()
    }

    /// When the next one gives up.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.keys().next().map(|(until, _)| *until)
    }

    /// One whose time is over.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<Token> {
        let ((until, _), token) = self.deadlines.iter().next()?;
        (*until <= now_ms).then_some(*token)
    }
}
