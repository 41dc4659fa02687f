//! Who is subscribed to which channel.

use crate::session::Token;
use std::collections::{BTreeMap, BTreeSet};

/// What is subscribed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Channel = 0,
    Pattern = 1,
    Shard = 2,
}

/// Subscribers of each channel, pattern, and shard channel.
#[derive(Debug, Default)]
pub(crate) struct PubSub([BTreeMap<Box<[u8]>, BTreeSet<Token>>; 3]);

impl PubSub {
    pub(crate) fn of(&self, kind: Kind) -> &BTreeMap<Box<[u8]>, BTreeSet<Token>> {
        &self.0[kind as usize]
    }

    pub(crate) fn add(&mut self, kind: Kind, channel: &[u8], token: Token) {
        let channels = &mut self.0[kind as usize];
        channels.entry(channel.into()).or_default().insert(token);
    }

    pub(crate) fn remove(&mut self, kind: Kind, channel: &[u8], token: Token) {
        let channels = &mut self.0[kind as usize];
        if let Some(tokens) = channels.get_mut(channel) {
            tokens.remove(&token);
            if tokens.is_empty() {
                channels.remove(channel);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeMap::is_empty)
    }

    /// Who gets a message: the subscriber, and the pattern that matched if one did.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> Vec<(Token, Option<Box<[u8]>>)> {
        let mut found: Vec<_> = self.0[kind as usize]
            .get(channel)
            .into_iter()
            .flatten()
            .map(|token| (*token, None))
            .collect();
        if kind == Kind::Channel {
            for (pattern, tokens) in &self.0[Kind::Pattern as usize] {
                if values::glob::matches(pattern, channel, false) {
                    found.extend(tokens.iter().map(|token| (*token, Some(pattern.clone()))));
                }
            }
        }
        found
    }
}
