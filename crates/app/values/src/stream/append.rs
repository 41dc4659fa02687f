//! Adding entries.

use super::{Stream, StreamId, node};
use crate::{error::ValueError, thresholds::Thresholds};

/// The id that XADD asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewId {
    /// `*`: the time, or the next id if the last one is not below it.
    Auto,
    /// `MS-*`: the next sequence of this millisecond.
    AutoSequence(u64),
    /// An id in full.
    Exact(StreamId),
}

impl NewId {
    /// Reads `*`, `MS-*`, `MS-SEQUENCE` or `MS`.
    ///
    /// # Errors
    /// [`ValueError::StreamId`].
    pub fn parse(text: &[u8]) -> Result<Self, ValueError> {
        match text {
            b"*" => Ok(Self::Auto),
            [ms @ .., b'-', b'*'] => {
                let ms = crate::number::parse_unsigned(ms).ok_or(ValueError::StreamId)?;
                Ok(Self::AutoSequence(ms))
            }
            _ => StreamId::parse(text, 0).map(Self::Exact),
        }
    }
}

impl Stream {
    /// The id that an entry added now would have.
    ///
    /// # Errors
    /// [`ValueError::StreamIdZero`], [`ValueError::StreamIdSmall`], [`ValueError::StreamExhausted`].
    pub fn new_id(&self, wanted: NewId, now_ms: u64) -> Result<StreamId, ValueError> {
        let last = self.last_id;
        if last == StreamId::MAX {
            return Err(ValueError::StreamExhausted);
        }
        let id = match wanted {
            NewId::Auto if now_ms > last.ms => StreamId::new(now_ms, 0),
            NewId::Auto => last.next().ok_or(ValueError::StreamExhausted)?,
            NewId::AutoSequence(ms) if ms == last.ms => {
                let sequence = last
                    .sequence
                    .checked_add(1)
                    .ok_or(ValueError::StreamIdSmall)?;
                StreamId::new(ms, sequence)
            }
            NewId::AutoSequence(ms) => StreamId::new(ms, 0),
            NewId::Exact(id) if id == StreamId::MIN => return Err(ValueError::StreamIdZero),
            NewId::Exact(id) => id,
        };
        if id <= last {
            return Err(ValueError::StreamIdSmall);
        }
        Ok(id)
    }

    /// Adds an entry (XADD); returns its id.
    ///
    /// # Errors
    /// As [`Self::new_id`].
    pub fn add(
        &mut self,
        wanted: NewId,
        now_ms: u64,
        fields: &[(&[u8], &[u8])],
        thresholds: &Thresholds,
    ) -> Result<StreamId, ValueError> {
        /// The most that a node takes, as in Redis.
        const NODE_BYTES_MAX: usize = 1 << 30;
        let id = self.new_id(wanted, now_ms)?;
        let bytes: usize = fields
            .iter()
            .map(|(field, value)| field.len() + value.len())
            .sum();
        let bytes_max = match thresholds.stream_node_max_bytes {
            0 => NODE_BYTES_MAX,
            limit => limit.min(NODE_BYTES_MAX),
        };
        let entries_max = thresholds.stream_node_max_entries;
        let last = self.nodes.last_entry().filter(|last| {
            let pack = last.get();
            pack.bytes().len() + bytes < bytes_max
                && (entries_max == 0 || node::entries(pack) < entries_max)
        });
        if let Some(mut last) = last {
            let master = *last.key();
            node::append(last.get_mut(), master, id, fields);
        } else {
            let mut pack = node::create(fields.iter().map(|(field, _)| *field));
            node::append(&mut pack, id, id, fields);
            self.nodes.insert(id, pack);
        }
        self.length += 1;
        self.entries_added = self.entries_added.saturating_add(1);
        self.last_id = id;
        Ok(id)
    }
}
