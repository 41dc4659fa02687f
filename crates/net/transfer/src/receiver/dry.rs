//! A transfer that changes nothing, and tells what it would.

use super::place;
use super::root::Root;
use super::sweep::{Act, Sweep};
use super::{Destination, Settings, check_entry, plain, say};
use crate::entry::{Entry, TreePath, What};
use crate::error::TransferError;
use crate::message::{Index, OFFER_ENTRIES, Placed, Plan, ToReceiver, ToSender};
use env::Clock;
use env::errno::Errno;
use rpc::Channel;
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use std::ffi::CString;
use std::sync::Arc;

/// Bytes of paths in one message, roughly.
const PATHS_BYTES: usize = 64 << 10;

/// Where a dry run looks.
pub(super) struct Dry<'a> {
    channel: &'a Channel,
    clock: &'a dyn Clock,
    settings: &'a Settings,
    /// None where it is not made yet.
    root: Option<Root>,
    sweep: Option<Sweep>,
    next: Index,
}

impl<'a> Dry<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        clock: &'a dyn Clock,
        settings: &'a Settings,
        destination: (Destination<'_>, &TreePath),
        sweep: Option<Sweep>,
    ) -> Result<Dry<'a>, TransferError> {
        let root = place::look(destination.0, destination.1)?;
        Ok(Dry {
            channel,
            clock,
            settings,
            root: root.map(|root| Root::new(Arc::new(root))),
            sweep,
            next: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<(), TransferError> {
        self.say(&ToSender::Ready)?;
        loop {
            let deadline = self.clock.now().after(self.settings.patience);
            let Some(message) = self.channel.receive(deadline)? else {
                return Ok(());
            };
            match rpc::decode(&message.body)? {
                ToReceiver::Offer { first, entries } => self.offered(first, &entries)?,
                ToReceiver::Sweep { max: _ } => self.sweep()?,
                _ => return Err(TransferError::Violation("more than a dry run has")),
            }
        }
    }

    fn say(&self, message: &ToSender) -> Result<(), TransferError> {
        say(self.channel, self.clock, self.settings, message)
    }

    fn offered(&mut self, first: Index, entries: &[Entry]) -> Result<(), TransferError> {
        if first != self.next || entries.is_empty() || entries.len() > OFFER_ENTRIES {
            return Err(TransferError::Violation(
                "an offer out of order, or too long",
            ));
        }
        self.next += entries.len() as u64;
        let mut plans = Vec::with_capacity(entries.len());
        for entry in entries {
            check_entry(entry)?;
            let Some(root) = &mut self.root else {
                plans.push(Plan::New);
                continue;
            };
            if let Some(sweep) = &mut self.sweep {
                sweep.take(entry, root);
            }
            plans.push(plan(root, entry));
        }
        self.say(&ToSender::Plans { first, plans })
    }

    fn sweep(&mut self) -> Result<(), TransferError> {
        let sweep = self.sweep.take();
        let sweep = sweep.ok_or(TransferError::Violation("a deletion that nobody spoke of"))?;
        let mut answer = (0, Placed::default(), None);
        if let Some(root) = &mut self.root {
            match sweep.count(root) {
                Ok(count) => answer.0 = count,
                Err(why) => answer.2 = Some(why.to_owned()),
            }
        }
        if let (Some(root), None) = (&mut self.root, &answer.2) {
            let (channel, clock, settings) = (self.channel, self.clock, self.settings);
            let (mut paths, mut bytes) = (Vec::new(), 0);
            let mut tell = |path: TreePath| {
                bytes += path.as_bytes().len() + 8;
                paths.push(path);
                if bytes >= PATHS_BYTES {
                    bytes = 0;
                    let paths = std::mem::take(&mut paths);
                    say(channel, clock, settings, &ToSender::Going { paths })?;
                }
                Ok(())
            };
            sweep.act(root, &mut Act::Name(&mut tell))?;
            if !paths.is_empty() {
                say(channel, clock, settings, &ToSender::Going { paths })?;
            }
        }
        let (found, placed, refused) = answer;
        self.say(&ToSender::Swept {
            found,
            deleted: 0,
            refused,
            placed,
        })
    }
}

/// What would come of an entry.
fn plan(root: &mut Root, entry: &Entry) -> Plan {
    let Some((parent, name)) = entry.path.split() else {
        return Plan::Same;
    };
    let dir = match root.directory(&parent) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Plan::New,
        Err(_) => return Plan::InTheWay,
    };
    let Ok(name) = CString::new(name) else {
        return Plan::InTheWay;
    };
    let stat = match statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Plan::New,
        Err(_) => return Plan::InTheWay,
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is = |wanted: FileType, number: u64| {
        let same = kind == wanted && (number == 0 || stat.st_rdev == number);
        if same { Plan::Same } else { Plan::Replace }
    };
    match &entry.what {
        What::Directory if kind.is_dir() => Plan::Same,
        What::Directory => Plan::InTheWay,
        What::Leave => Plan::Same,
        _ if kind.is_dir() => Plan::InTheWay,
        What::File(source) => {
            let there = root.file(&entry.path).ok().and_then(|file| plain(&file));
            match there {
                Some(there) if there == (source.bytes, source.modified) => Plan::Compare,
                _ => Plan::Replace,
            }
        }
        What::Link(target) => match readlinkat(&dir, &name, Vec::new()) {
            Ok(there) if there.to_bytes() == &target[..] => Plan::Same,
            _ => Plan::Replace,
        },
        What::SameAs(first) => {
            let other = first.split().and_then(|(parent, name)| {
                let dir = root.directory(&parent).ok()?;
                statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()
            });
            match other.is_some_and(|other| other.st_ino == stat.st_ino) {
                true => Plan::Same,
                false => Plan::Replace,
            }
        }
        What::Pipe => is(FileType::Fifo, 0),
        What::Socket => is(FileType::Socket, 0),
        What::Character(number) => is(FileType::CharacterDevice, *number),
        What::Block(number) => is(FileType::BlockDevice, *number),
    }
}
