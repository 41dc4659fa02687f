//! What the members' journals say at a start.

use super::OpenError;
use crate::engine::Slot;
use crate::journal::dirty::DirtySet;
use crate::journal::{Away, DirtyLog, Journal, JournalError, RecordError, log_id, open_log};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::set::Header;
use log::Log;
use std::sync::Arc;

/// What the members' journals say.
pub(super) struct Journals {
    /// The logs of the members that are no images.
    pub(super) logs: Vec<(StoreIndex, Arc<Log>)>,
    /// What they say was active.
    pub(super) active: DirtySet,
    /// A checkpoint that each of them has, where they say it; 0 where none does.
    pub(super) checkpoint: u64,
    /// Members whose journal ends more than one checkpoint before another's: what they hold is from
    /// then, an image that was put in the store's place.
    pub(super) images: StoreMask,
}

/// The members' journals, opened, and all that any of them says was active. Each record is on
/// every member, so one journal that can be read is enough; with none everything is compared. One
/// that another version wrote is not replaced: the start is refused.
pub(super) fn read_journals(
    header: &Header,
    present: StoreMask,
    slots: &[Slot],
) -> Result<Journals, OpenError> {
    let mut logs = Vec::new();
    let mut read: Vec<(StoreIndex, DirtySet)> = Vec::new();
    for index in present.iter() {
        let slot = &slots[usize::from(index.0)];
        let Some(store) = slot.store.read().clone() else {
            continue;
        };
        let id = log_id(header.set.0, index, 0);
        match open_log(store.system(), id) {
            Ok((log, set)) => {
                read.push((index, set));
                logs.push((index, log));
            }
            Err(JournalError::Record(why @ RecordError::Kind { .. })) => {
                return Err(OpenError::Journal {
                    path: slot.path.lock().clone(),
                    why: why.to_string(),
                });
            }
            Err(error) => {
                tracing::warn!(store = index.0, %error, "its journal cannot be read; a new one is made");
                match Journal::replace_log(store.system(), id) {
                    Ok(log) => logs.push((index, log)),
                    // The first write to it fences the store.
                    Err(error) => {
                        tracing::warn!(store = index.0, %error, "nor can a new one be made")
                    }
                }
            }
        }
    }
    let images = older(&read);
    logs.retain(|(store, _)| !images.has(*store));
    read.retain(|(store, _)| !images.has(*store));
    let known = read.iter().map(|(_, set)| set.checkpoint);
    let checkpoint = known.filter(|c| *c > 0).min().unwrap_or(0);
    let mut read = read.into_iter().map(|(_, set)| set);
    let Some(mut active) = read.next() else {
        tracing::error!("no journal can be read; everything is compared");
        return Ok(Journals {
            logs,
            active: DirtySet::everything(),
            checkpoint,
            images,
        });
    };
    read.for_each(|set| active.merge(&set));
    Ok(Journals {
        logs,
        active,
        checkpoint,
        images,
    })
}

/// The stores whose journal ends more than one checkpoint before the newest. A crash leaves no more
/// than one between two members.
fn older(read: &[(StoreIndex, DirtySet)]) -> StoreMask {
    let newest = read.iter().map(|(_, set)| set.checkpoint).max();
    let ends_before = |set: &DirtySet| {
        set.checkpoint > 0 && set.checkpoint.saturating_add(1) < newest.unwrap_or(0)
    };
    read.iter()
        .filter(|(_, set)| ends_before(set))
        .fold(StoreMask::default(), |mask, (store, _)| mask.with(*store))
}

/// Adds what the members' dirty logs say that `absent` has not seen.
pub(super) fn read_dirty(
    header: &Header,
    absent: StoreIndex,
    present: StoreMask,
    slots: &[Slot],
    set: &mut DirtySet,
) {
    let away = Away {
        set: header.set.0,
        store: absent,
        generation: header.stores[usize::from(absent.0)].1.generation,
    };
    for index in present.iter() {
        let Some(store) = slots[usize::from(index.0)].store.read().clone() else {
            continue;
        };
        match DirtyLog::read(&store.system(), away) {
            Ok(Some(known)) => {
                set.checkpoint = set.checkpoint.max(known.checkpoint);
                set.merge(&known);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(store = index.0, %error, "a dirty log cannot be read; everything is compared");
                set.mark = ObjectId(0);
            }
        }
    }
}
