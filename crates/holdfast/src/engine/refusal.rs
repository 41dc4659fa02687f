//! Why a set does not start, in words for people.

use crate::exit::Exit;
use crate::failure::Failure;
use mount::MountError;
use redundancy::set::RefuseReason;
use redundancy::store::local::LocalStoreError;
use redundancy::{AttachError, OpenError};
use std::path::Path;

/// A set that does not open.
pub fn open(error: &OpenError) -> Failure {
    let (exit, next) = match error {
        OpenError::TooFew { .. } => (
            Exit::TooFewStores,
            "give more stores: --store DIR once for each\n\
             or keep fewer copies: --copies N, where 1 is no redundancy at all",
        ),
        OpenError::TooMany { .. } => (
            Exit::Config,
            "give only the stores that the set was made with; a set does not grow",
        ),
        OpenError::NewSet { .. } => (
            Exit::StorePath,
            "a new set needs all of its stores, empty: correct that one, or give another directory\n\
             if the set is not new, bring its stores back first",
        ),
        OpenError::Refused(reason) => return refused(reason),
        OpenError::Header { .. } => (
            Exit::StoreRefused,
            "see what is left of it: `holdfast inspect STORE/.holdfast/store`\n\
             start without that store; later attach an empty directory in its place",
        ),
        OpenError::Journal { .. } => (
            Exit::StoreRefused,
            "start the version of Holdfast that wrote it\n\
             `holdfast inspect STORE/.holdfast/intent.*` prints its records",
        ),
        OpenError::Images { .. } => (
            Exit::StoreRefused,
            "a snapshot or a copy was put in the place of a store: put the newest back, at least for \
             most stores\n\
             where the newer ones are gone for good, take these away and say so for each: \
             `holdfast up --without INDEX`",
        ),
        OpenError::Store { .. } => (
            Exit::StorePath,
            "look at its disk: `dmesg`, `findmnt`\n\
             start without that store; it is brought up to date when it comes back",
        ),
        _ => {
            return Failure {
                what: format!("the set does not start: {error}"),
                safe: "what was synced is on its stores; nothing was given up".to_owned(),
                next: "look at the disks: `dmesg`\n\
                       start again; recovery begins anew and may be interrupted at any point"
                    .to_owned(),
                exit: Exit::Failed,
            };
        }
    };
    Failure::refuse(exit, error.to_string(), next)
}

/// Stores that do not make up a set, or a store that may not take part in one.
pub fn refused(reason: &RefuseReason) -> Failure {
    let (exit, what, next) = match reason {
        RefuseReason::OtherSet { .. } => (
            Exit::StoreRefused,
            format!("a store is refused: {reason}"),
            "give only the stores of one set\n\
             `holdfast inspect STORE/.holdfast/store` prints which set a store belongs to",
        ),
        RefuseReason::Diverged { .. } => (
            Exit::StoreRefused,
            format!("a store is refused: {reason}"),
            "start without the store whose latest changes you can spare; its files stay under \
             STORE/data\n\
             when you have what you need of them, attach an empty directory in its place",
        ),
        RefuseReason::Older { .. } => (
            Exit::StoreRefused,
            format!("a store is refused: {reason}"),
            "it may have been restored from a backup or a snapshot\n\
             start without it, and attach an empty directory in its place",
        ),
        RefuseReason::Place { .. } => (
            Exit::StoreRefused,
            format!("a store is refused: {reason}"),
            "one of the two is a copy of the other (cp, a snapshot): give only the original",
        ),
        RefuseReason::NoMajority { .. } => (
            Exit::NoMajority,
            format!("the set does not start: {reason}"),
            "the missing stores may hold newer files: mount their disks, and start again\n\
             if they are gone for good, say so for each: `holdfast up --without INDEX`",
        ),
        RefuseReason::NoHeader => (
            Exit::StorePath,
            format!("the set does not start: {reason}, and not all can be used for a new set"),
            "if the set exists, mount the disks of its stores\n\
             for a new set, give empty directories that can be written",
        ),
        _ => (
            Exit::StoreRefused,
            format!("a store is refused: {reason}"),
            "start without it, and attach an empty directory in its place",
        ),
    };
    Failure::refuse(exit, what, next)
}

/// A directory that cannot be a store.
pub fn store(error: &LocalStoreError) -> Failure {
    let exit = match error {
        LocalStoreError::Locked { .. } => Exit::StoresInUse,
        LocalStoreError::Permission { .. } => Exit::NoPermission,
        _ => Exit::StorePath,
    };
    advised(exit, error)
}

/// A mount that cannot be made or taken away.
pub fn mounting(error: &MountError) -> Failure {
    let exit = match error {
        MountError::NoDevice | MountError::Kernel { .. } => Exit::NoFuse,
        MountError::Permission { .. } => Exit::NoPermission,
        MountError::Missing { .. } | MountError::NotDirectory { .. } => Exit::MountPoint,
        MountError::AlreadyMounted { .. } => Exit::MountInUse,
        MountError::Stale { .. } => Exit::StaleMount,
        MountError::Busy { .. } => Exit::MountBusy,
        MountError::Io { .. } => Exit::Failed,
    };
    advised(exit, error)
}

/// A store that is not taken in.
pub fn attach(path: &Path, error: &AttachError) -> Failure {
    let shown = path.display();
    let (exit, next) = match error {
        AttachError::Refused(reason) => {
            let mut failure = refused(reason);
            failure.what = format!("{shown} is refused: {reason}");
            failure.next = "attach an empty directory in its place\n\
                            or, where nothing on it is needed, empty this one first"
                .to_owned();
            return failure;
        }
        AttachError::NoPlace => (
            Exit::StoreRefused,
            "the set is complete; to replace a store, detach that one first: \
             `holdfast detach INDEX`"
                .to_owned(),
        ),
        AttachError::NoHeader => (
            Exit::StorePath,
            "attach a store of this set, or an empty directory".to_owned(),
        ),
        _ => (
            Exit::StorePath,
            "look at its disk: `dmesg`, `findmnt`".to_owned(),
        ),
    };
    Failure::refuse(exit, format!("{shown} was not attached: {error}"), next)
}

/// An error that carries its advice behind a semicolon.
pub(super) fn advised(exit: Exit, error: &dyn std::fmt::Display) -> Failure {
    let text = error.to_string();
    match text.split_once("; ") {
        Some((what, next)) => Failure::refuse(exit, what, next),
        None => Failure::refuse(exit, text, "look at the system's log: `dmesg`"),
    }
}

#[cfg(test)]
mod tests;
