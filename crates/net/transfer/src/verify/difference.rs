//! How an object differs from what a manifest says of it.

use crate::entry::{Time, TreePath};
use crate::manifest::{Carried, Digest, Kind, Object};
use crate::walk::words;
use env::errno::Errno;
use std::fmt;

/// What is wrong with an object. What it was comes first, then what it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Difference {
    /// Nothing is there.
    #[error("it is not there")]
    Missing,
    /// A directory on the way to it is none any more.
    #[error("something on the way to it is no directory any more")]
    Way,
    /// It is of another kind.
    #[error("it was {0}, and is {1}")]
    Kind(Kind, Kind),
    /// It was written since: length or time are others.
    #[error("it has been written since")]
    Written,
    /// Length and time are as they were, and the content is not.
    #[error("its content is another, though its length and time are not: it has rotted")]
    Rotten,
    /// It cannot be read.
    #[error("it cannot be read: {}", words(*.0))]
    Unreadable(Errno),
    /// The name leads to another object than the other name.
    #[error("it is no further name of {0} any more")]
    Name(TreePath),
    /// A link with another target.
    #[error("it led to {}, and leads to {}", .0.escape_ascii(), .1.escape_ascii())]
    Target(Vec<u8>, Vec<u8>),
    /// A device with another number.
    #[error("it was the device {}, and is {}", device(*.0), device(*.1))]
    Device(u64, u64),
    /// Other permissions.
    #[error("its permissions were {0:o}, and are {1:o}")]
    Mode(u32, u32),
    /// Another owner, or another group.
    #[error("its owner and group were {}:{}, and are {}:{}", .0.0, .0.1, .1.0, .1.1)]
    Owner((u32, u32), (u32, u32)),
    /// Another time of change, and the same content.
    #[error("its time of change was {}, and is {}", time(*.0), time(*.1))]
    Time(Time, Time),
    /// Other access control lists.
    #[error("its access control lists {0}")]
    Acl(Change),
    /// Other extended attributes.
    #[error("its extended attributes {0}")]
    Attributes(Change),
}

/// How something of which only a sum is known differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It had none.
    Added,
    /// It has none any more.
    Gone,
    /// They are others.
    Other,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::Added => "were added: it had none",
            Change::Gone => "are gone",
            Change::Other => "are others",
        })
    }
}

impl Change {
    fn between(was: Option<Digest>, is: Option<Digest>) -> Option<Change> {
        match (was, is) {
            _ if was == is => None,
            (None, _) => Some(Change::Added),
            (_, None) => Some(Change::Gone),
            _ => Some(Change::Other),
        }
    }
}

fn device(number: u64) -> String {
    crate::manifest::device_words(number)
}

fn time(time: Time) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}

/// What is wrong with an object of the same kind, but for its content.
pub(super) fn carried(was: (Time, &Carried), now: &Object, found: &mut Vec<Difference>) {
    let (modified, was) = was;
    let is = &now.carried;
    let owner = |carried: &Carried| (carried.uid, carried.gid);
    if was.mode != is.mode {
        found.push(Difference::Mode(was.mode, is.mode));
    }
    if owner(was) != owner(is) {
        found.push(Difference::Owner(owner(was), owner(is)));
    }
    if modified != now.modified {
        found.push(Difference::Time(modified, now.modified));
    }
    found.extend(Change::between(was.acl, is.acl).map(Difference::Acl));
    found.extend(Change::between(was.attributes, is.attributes).map(Difference::Attributes));
}

/// What is wrong with an object that is no file.
pub(super) fn object(was: &Object, now: &Object, found: &mut Vec<Difference>) {
    match (&was.kind, &now.kind) {
        (Kind::Link(was), Kind::Link(is)) if was != is => {
            found.push(Difference::Target(was.clone(), is.clone()));
        }
        (Kind::Character(was), Kind::Character(is)) | (Kind::Block(was), Kind::Block(is))
            if was != is =>
        {
            found.push(Difference::Device(*was, *is));
        }
        (was, is) if was.word() != is.word() => {
            found.push(Difference::Kind(was.clone(), is.clone()));
            return;
        }
        _ => {}
    }
    carried((was.modified, &was.carried), now, found);
}
