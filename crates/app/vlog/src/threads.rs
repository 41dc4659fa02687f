//! The threads of an open log: one for each lane, one for compactions.

use crate::error::VlogError;
use crate::options::Sync;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long records wait for company before they are written, unless they are to be synced at
/// once: what a process that is killed can lose.
const WRITE_DELAY: Duration = Duration::from_millis(1);

/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// How often it is looked whether there is something to compact, if nobody says so.
const COMPACTION_LOOK: Duration = Duration::from_secs(1);

/// Starts them.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, VlogError> {
    let mut threads = Vec::new();
    let spawn = |name: String, work: Box<dyn FnOnce(&Shared) + Send>| {
        let shared = shared.clone();
        let builder = std::thread::Builder::new().name(name);
        let started = builder.spawn(move || work(&shared));
        started.map_err(|error| VlogError::Io {
            doing: "starting a thread for",
            file: "the log".to_owned(),
            errno: error.raw_os_error().map_or(
                env::errno::Errno::AGAIN,
                env::errno::Errno::from_raw_os_error,
            ),
        })
    };
    for lane in 0..shared.lanes.len() {
        let work = Box::new(move |shared: &Shared| write_lane(shared, lane));
        match spawn(format!("vlog-lane-{lane}"), work) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                end(shared, threads);
                return Err(error);
            }
        }
    }
    match spawn("vlog-compact".to_owned(), Box::new(compact)) {
        Ok(thread) => threads.push(thread),
        Err(error) => {
            end(shared, threads);
            return Err(error);
        }
    }
    Ok(threads)
}

/// Ends them; nothing more is written.
pub(crate) fn end(shared: &Shared, threads: Vec<JoinHandle<()>>) {
    shared.ending.store(true, Ordering::Release);
    for lane in &shared.lanes {
        let _buffer = lane.buffer.lock();
        lane.work.notify_all();
    }
    shared.hint_compaction();
    for thread in threads {
        // One that panicked has said so on standard error.
        let _ = thread.join();
    }
}

/// Writes and syncs a lane until the log ends or stops.
fn write_lane(shared: &Shared, lane: usize) {
    let Some(state) = shared.lanes.get(lane) else {
        return;
    };
    let mut unsynced_since: Option<Instant> = None;
    loop {
        let mut buffer = state.buffer.lock();
        let ends = || shared.ending.load(Ordering::Acquire) || shared.check().is_err();
        if ends() {
            return;
        }
        let wanted = || shared.sync_wanted(lane);
        if buffer.chunks.is_empty() && !wanted() {
            match (unsynced_since, shared.options.sync) {
                (Some(since), Sync::Every(period)) => {
                    let left = period.saturating_sub(since.elapsed());
                    buffer.parked = true;
                    let _ = state.work.wait_for(&mut buffer, left);
                }
                _ => {
                    buffer.parked = true;
                    state.work.wait(&mut buffer);
                }
            }
            buffer.parked = false;
            if ends() {
                return;
            }
        }
        let has_work = !buffer.chunks.is_empty();
        drop(buffer);
        let sync_now = shared.take_sync_wanted(lane);
        let always = shared.options.sync == Sync::Always;
        if has_work && !always && !sync_now {
            // Company.
            let mut buffer = state.buffer.lock();
            if buffer.bytes < crate::lane::CHUNK_BYTES && !ends() {
                let _ = state.work.wait_for(&mut buffer, WRITE_DELAY);
            }
        }
        match shared.flush(lane) {
            Ok(()) => {}
            Err(VlogError::Full { .. }) => {
                // Whoever waits for it is told, and it is tried again.
                state.room.notify_all();
                let mut buffer = state.buffer.lock();
                let _ = state.work.wait_for(&mut buffer, RETRY);
                continue;
            }
            Err(_) => return,
        }
        if has_work {
            unsynced_since.get_or_insert_with(Instant::now);
        }
        let due = match shared.options.sync {
            Sync::Always => true,
            Sync::Every(period) => unsynced_since.is_some_and(|since| since.elapsed() >= period),
            Sync::Never => false,
        };
        if due || sync_now {
            unsynced_since = None;
            if shared.sync(lane).is_err() {
                return;
            }
        }
    }
}

/// Compacts what is worth it until the log ends or stops.
fn compact(shared: &Shared) {
    // Whoever appends is not to wait for a core.
    env::priority::give_way();
    loop {
        {
            let (hinted, wake) = &shared.compact;
            let mut hinted = hinted.lock();
            if !*hinted {
                let _ = wake.wait_for(&mut hinted, COMPACTION_LOOK);
            }
            *hinted = false;
        }
        loop {
            if shared.ending.load(Ordering::Acquire) || shared.check().is_err() {
                return;
            }
            let compacted = shared.compact(shared.options.compaction.dead_percent_min);
            *shared.compaction_failed.lock() = compacted.as_ref().err().cloned();
            if !matches!(compacted, Ok(Some(_))) {
                break;
            }
        }
    }
}
