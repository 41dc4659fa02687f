//! Processes that begin beside a log that is opened.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process that begins has the locks of this one for a moment, so none begins while a log is opened.
static BEGINS: Mutex<()> = Mutex::new(());

pub(crate) fn begins() -> MutexGuard<'static, ()> {
    BEGINS.lock().unwrap_or_else(PoisonError::into_inner)
}
