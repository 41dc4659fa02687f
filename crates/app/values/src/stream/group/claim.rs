//! Taking over what other consumers have not acknowledged (XCLAIM, XAUTOCLAIM).

use super::PendingEntry;
use crate::stream::{Stream, StreamId, read};

/// The options of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Claim {
    /// Only what was delivered at least so long ago, in milliseconds.
    pub idle_ms_min: u64,
    /// When the delivery is said to have been (IDLE, TIME); none for now.
    pub delivered_ms: Option<u64>,
    /// How often it is said to have been delivered (RETRYCOUNT).
    pub deliveries: Option<u64>,
    /// Also what is pending for nobody (FORCE).
    pub force: bool,
    /// Only the id is wanted: this is not a delivery (JUSTID).
    pub just_id: bool,
    /// The group has read up to here (LASTID).
    pub last_id: Option<StreamId>,
}

/// What a claim did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Ids that are the consumer's now.
    pub claimed: Vec<StreamId>,
    /// Ids that were pending, but whose entries are deleted; they are no longer.
    pub deleted: Vec<StreamId>,
}

/// The options of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The first id to look at.
    pub start: StreamId,
    /// At most so many entries.
    pub count: usize,
    /// Only what was delivered at least so long ago, in milliseconds.
    pub idle_ms_min: u64,
    /// Only ids are wanted: this is not a delivery (JUSTID).
    pub just_id: bool,
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Where the next sweep goes on; 0-0 at the end.
    pub next: StreamId,
    /// What was taken over.
    pub claimed: Claimed,
}

impl Stream {
    /// Gives a consumer these entries (XCLAIM). None if there is no such group. The consumer is made
    /// if there is none of that name and it gets something.
    pub fn claim(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        ids: &[StreamId],
        options: Claim,
        now_ms: u64,
    ) -> Option<Claimed> {
        let nodes = &self.nodes;
        let group = self.groups.get_mut(group)?;
        if let Some(last) = options.last_id {
            group.last_id = group.last_id.max(last);
        }
        let mut result = Claimed::default();
        for &id in ids {
            let pending = group.pending.get(&id).copied();
            if !read::has(nodes, id) {
                if group.acknowledge(id) {
                    result.deleted.push(id);
                }
                continue;
            }
            let mut entry = match pending {
                Some(entry) if now_ms.saturating_sub(entry.delivered_ms) < options.idle_ms_min => {
                    continue;
                }
                Some(entry) => entry,
                None if options.force => PendingEntry {
                    consumer: 0,
                    delivered_ms: now_ms,
                    deliveries: 1,
                },
                None => continue,
            };
            entry.consumer = group.number(consumer, now_ms);
            entry.delivered_ms = options.delivered_ms.unwrap_or(now_ms);
            entry.deliveries = match options.deliveries {
                Some(deliveries) => deliveries,
                None => entry.deliveries.saturating_add(u64::from(!options.just_id)),
            };
            group.assign(id, entry);
            result.claimed.push(id);
        }
        Some(result)
    }

    /// Gives a consumer entries that have been pending for long (XAUTOCLAIM); looks at ten times as
    /// many as it may take over. None if there is no such group.
    pub fn sweep(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        options: Sweep,
        now_ms: u64,
    ) -> Option<Swept> {
        let Sweep {
            start,
            count,
            idle_ms_min,
            just_id,
        } = options;
        let nodes = &self.nodes;
        let group = self.groups.get_mut(group)?;
        let (mut attempts, mut left) = (count.saturating_mul(10), count);
        let mut swept = Swept::default();
        let mut next = Some(start);
        while let Some((&id, &entry)) = next.and_then(|next| group.pending.range(next..).next()) {
            if attempts == 0 || left == 0 {
                swept.next = id;
                break;
            }
            attempts -= 1;
            next = id.next();
            if !read::has(nodes, id) {
                group.acknowledge(id);
                swept.claimed.deleted.push(id);
                left -= 1;
                continue;
            }
            if now_ms.saturating_sub(entry.delivered_ms) < idle_ms_min {
                continue;
            }
            let deliveries = entry.deliveries.saturating_add(u64::from(!just_id));
            let number = group.number(consumer, now_ms);
            group.assign(
                id,
                PendingEntry {
                    consumer: number,
                    delivered_ms: now_ms,
                    deliveries,
                },
            );
            swept.claimed.claimed.push(id);
            left -= 1;
        }
        Some(swept)
    }
}
