//! MULTI, EXEC and WATCH: what a session has queued, and who watches which key.

use crate::session::Token;
use std::collections::HashMap;

/// Commands between MULTI and EXEC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Vec<Vec<u8>>>,
    /// Whether one was refused, so that EXEC is.
    pub(crate) refused: bool,
}

/// A key of a database.
pub(crate) type Place = (u8, Box<[u8]>);

/// Who watches which key.
#[derive(Debug, Default)]
pub(crate) struct Watchers(HashMap<Place, Vec<Token>>);

impl Watchers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, place: &Place, token: Token) {
        let tokens = self.0.entry(place.clone()).or_default();
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }

    pub(crate) fn remove(&mut self, place: &Place, token: Token) {
        if let Some(tokens) = self.0.get_mut(place) {
            tokens.retain(|other| *other != token);
            if tokens.is_empty() {
                self.0.remove(place);
            }
        }
    }

    pub(crate) fn of(&self, place: &Place) -> &[Token] {
        self.0.get(place).map(Vec::as_slice).unwrap_or_default()
    }

    /// All keys of a database, or of all.
    pub(crate) fn places(&self, database: Option<u8>) -> Vec<Place> {
        let all = self.0.keys();
        all.filter(|place| database.is_none_or(|database| place.0 == database))
            .cloned()
            .collect()
    }

    pub(crate) fn keys(&self) -> usize {
        self.0.len()
    }
}
