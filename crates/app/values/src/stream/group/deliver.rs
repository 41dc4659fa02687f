//! Delivering entries to consumers (XREADGROUP).

use super::{Group, PendingEntry};
use crate::stream::{Stream, StreamEntry, StreamId, read};

impl Stream {
    /// Delivers up to `count` entries that the group has not read (XREADGROUP with `>`). With
    /// `no_ack` they are not noted as pending. None if there is no such group. The consumer is made
    /// if there is none of that name and it gets something.
    pub fn deliver(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        count: usize,
        no_ack: bool,
        now_ms: u64,
    ) -> Option<Vec<StreamEntry<'_>>> {
        let start = self.groups.get(group)?.last_id.next();
        let ids: Vec<StreamId> = match start {
            Some(start) => self
                .iter(start, StreamId::MAX)
                .take(count)
                .map(|entry| entry.id)
                .collect(),
            None => Vec::new(),
        };
        let reads = self.reads_after(group, &ids);
        let group = self.groups.get_mut(group)?;
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else {
            return Some(Vec::new());
        };
        let number = group.number(consumer, now_ms);
        group.last_id = last;
        group.entries_read = reads;
        if !no_ack {
            for id in ids {
                group.assign(
                    id,
                    PendingEntry {
                        consumer: number,
                        delivered_ms: now_ms,
                        deliveries: 1,
                    },
                );
            }
        }
        Some(self.iter(first, last).collect())
    }

    /// Delivers again what a consumer has yet to acknowledge, above `after`, up to `count`
    /// (XREADGROUP with an id). Entries that are deleted come as ids alone. None if there is no such
    /// group.
    pub fn deliver_again(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        after: StreamId,
        count: usize,
        now_ms: u64,
    ) -> Option<Vec<(StreamId, Option<StreamEntry<'_>>)>> {
        let group = self.groups.get_mut(group)?;
        let number = group.number(consumer, now_ms);
        let Group {
            pending, consumers, ..
        } = group;
        let own = consumers.get(&number)?;
        let ids: Vec<StreamId> = match after.next() {
            Some(start) => own.pending.range(start..).take(count).copied().collect(),
            None => Vec::new(),
        };
        let present: Vec<bool> = {
            let nodes = &self.nodes;
            ids.iter().map(|id| read::has(nodes, *id)).collect()
        };
        for (id, present) in ids.iter().zip(present) {
            if let Some(entry) = pending.get_mut(id).filter(|_| present) {
                entry.delivered_ms = now_ms;
                entry.deliveries = entry.deliveries.saturating_add(1);
            }
        }
        Some(ids.into_iter().map(|id| (id, self.get(id))).collect())
    }

    /// What the group's count of read entries is after these.
    fn reads_after(&self, group: &[u8], ids: &[StreamId]) -> Option<u64> {
        let mut reads = self.groups.get(group)?.entries_read;
        for &id in ids {
            reads = match reads {
                Some(reads) if !self.has_deleted_from(id) => Some(reads.saturating_add(1)),
                _ => self.position(id),
            };
        }
        reads
    }
}
