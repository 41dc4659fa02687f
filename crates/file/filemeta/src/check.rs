//! The full check: every object, every reference, read-only.

use crate::composite::{Composite, Entry};
use crate::key::{Number, ObjectKey, Tag};
use crate::store::{ROSTER_ENTRY_BYTES, RosterEntry, Store, Transaction};
use crate::{Header, MetaError, Result};
use env::handle::Handle;
use std::collections::HashSet;
use std::fmt;

/// Something that is not as it should be.
#[derive(Debug)]
pub enum Finding {
    /// A file in the directory of objects that is none of ours.
    Stray {
        /// Its name.
        file: String,
    },
    /// Room that was reserved and never used: a crash, or a request that was refused.
    Unfinished {
        /// The object.
        object: ObjectKey,
    },
    /// An object that cannot be read, in whole or in part.
    Damaged {
        /// The object.
        object: ObjectKey,
        /// Why.
        error: MetaError,
    },
    /// An object whose owner was removed.
    OwnerGone {
        /// The object.
        object: ObjectKey,
        /// The owner.
        owner: Handle,
    },
    /// An object that its owner's attribute does not name: written aside for a request that a
    /// crash kept from happening.
    Unreferenced {
        /// The object.
        object: ObjectKey,
        /// The owner.
        owner: Handle,
    },
    /// An object whose owner has lost its attribute: a program stripped it.
    Unlinked {
        /// The object.
        object: ObjectKey,
        /// The owner.
        owner: Handle,
    },
    /// An owner whose attribute does not verify.
    BadAttribute {
        /// The owner.
        owner: Handle,
        /// Why.
        error: MetaError,
    },
    /// An attribute refers to something that is not there, or not the owner's.
    Dangling {
        /// The owner.
        owner: Handle,
        /// Under this tag.
        tag: Tag,
        /// The object.
        object: ObjectKey,
    },
    /// A roster names an owner that was removed.
    SharerGone {
        /// The shared object.
        number: Number,
        /// The roster's entry.
        place: u32,
        /// The owner.
        owner: Handle,
    },
    /// A roster names an owner that does not refer to the object.
    NotSharing {
        /// The shared object.
        number: Number,
        /// The roster's entry.
        place: u32,
        /// The owner.
        owner: Handle,
    },
    /// The count of references is not that of the roster.
    WrongCount {
        /// The shared object.
        number: Number,
        /// The count that it has.
        stored: u64,
        /// Used entries of its roster.
        found: u64,
    },
    /// The roster's free entries are not the ones that its list of them reaches.
    BadFreeList {
        /// The roster.
        object: ObjectKey,
    },
    /// A shared object without a roster, or the other way round.
    Alone {
        /// The object.
        object: ObjectKey,
    },
}

impl Finding {
    /// Whether it is left from crashes and removed files: it costs room, and nothing is wrong.
    pub fn is_garbage(&self) -> bool {
        matches!(
            self,
            Finding::Unfinished { .. }
                | Finding::OwnerGone { .. }
                | Finding::Unreferenced { .. }
                | Finding::SharerGone { .. }
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Stray { file } => write!(f, "{file}: not a file of a metadata store"),
            Finding::Unfinished { object } => write!(f, "{object}: reserved and never used"),
            Finding::Damaged { object, error } => write!(f, "{object}: {error}"),
            Finding::OwnerGone { object, .. } => write!(f, "{object}: its file was removed"),
            Finding::Unreferenced { object, .. } => {
                write!(f, "{object}: its file does not refer to it")
            }
            Finding::Unlinked { object, .. } => {
                write!(f, "{object}: its file has lost its attribute")
            }
            Finding::BadAttribute { error, .. } => write!(f, "attribute: {error}"),
            Finding::Dangling { tag, object, .. } => {
                let tag = tag.get();
                write!(
                    f,
                    "{object}: not there or not the file's that has it as {tag}"
                )
            }
            Finding::SharerGone { number, place, .. } => {
                let number = number.get();
                write!(f, "shared object {number:x}: owner {place} was removed")
            }
            Finding::NotSharing { number, place, .. } => {
                let number = number.get();
                write!(
                    f,
                    "shared object {number:x}: owner {place} does not refer to it"
                )
            }
            Finding::WrongCount {
                number,
                stored,
                found,
            } => {
                let number = number.get();
                write!(
                    f,
                    "shared object {number:x}: counts {stored} owners, has {found}"
                )
            }
            Finding::BadFreeList { object } => write!(f, "{object}: wrong list of free entries"),
            Finding::Alone { object } => write!(f, "{object}: without its other half"),
        }
    }
}

/// What a check looked at and found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Objects.
    pub objects: u64,
    /// Owners with metadata.
    pub owners: u64,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether nothing but garbage was found.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(Finding::is_garbage)
    }
}

impl Store {
    /// Reads every object whole, and holds it against its owner's attribute, and the other way
    /// round. Changes nothing. Other calls go on between objects; what they change meanwhile is
    /// seen as it was or as it is.
    ///
    /// # Errors
    /// The directory of objects cannot be listed, or [`MetaError::Stopped`].
    pub fn check(&self) -> Result<CheckReport> {
        let files = self.object_files()?;
        let mut check = Check::default();
        for file in files {
            let Some(key) = ObjectKey::from_file_name(&file) else {
                check.report.findings.push(Finding::Stray { file });
                continue;
            };
            self.with_state(|state| {
                check.object(&mut Transaction::new(state), &key);
                Ok(())
            })?;
        }
        check.report.owners = check.owners.len() as u64;
        Ok(check.report)
    }
}

#[derive(Default)]
struct Check {
    report: CheckReport,
    /// Whose entries were looked at.
    owners: HashSet<Handle>,
}

impl Check {
    fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    fn object(&mut self, txn: &mut Transaction<'_>, key: &ObjectKey) {
        if txn.is_staged(key) || txn.is_away(key) {
            return;
        }
        self.report.objects += 1;
        let object = key.clone();
        let header = match txn.header(key) {
            Ok(Some(header)) => header,
            Ok(None) => return self.find(Finding::Unfinished { object }),
            Err(error) => return self.find(Finding::Damaged { object, error }),
        };
        // What was written aside and never taken may be torn: nobody will read it.
        let aside = matches!(key, ObjectKey::Linked(_)) && header.references == 0;
        if !aside && let Err(error) = txn.verify(key, &header) {
            return self.find(Finding::Damaged { object, error });
        }
        match key {
            ObjectKey::Linked(number) => self.linked(txn, *number, &header),
            ObjectKey::Shared(number) => {
                let roster = txn.header(&ObjectKey::Roster(*number));
                // A damaged roster is a finding of its own.
                if matches!(roster, Ok(None)) {
                    self.find(Finding::Alone { object });
                }
            }
            ObjectKey::Roster(number) => self.roster(txn, *number, &header),
            ObjectKey::System(_) => {}
        }
    }

    fn linked(&mut self, txn: &mut Transaction<'_>, number: Number, header: &Header) {
        let object = ObjectKey::Linked(number);
        let Some((owner, tag)) = header.owner_handle().zip(Tag::new(header.tag)) else {
            return self.find(Finding::Alone { object });
        };
        match txn.composite(&owner) {
            Ok(composite) => {
                if composite.entries.get(&tag) == Some(&Entry::Linked(number)) {
                    self.entries(txn, &owner, &composite);
                } else if header.references == 0 || txn.has_attribute(&owner) {
                    self.find(Finding::Unreferenced { object, owner });
                } else {
                    self.find(Finding::Unlinked { object, owner });
                }
            }
            Err(MetaError::OwnerGone) => self.find(Finding::OwnerGone { object, owner }),
            Err(error) => self.bad_attribute(owner, error),
        }
    }

    fn bad_attribute(&mut self, owner: Handle, error: MetaError) {
        if self.owners.insert(owner) {
            self.find(Finding::BadAttribute { owner, error });
        }
    }

    /// Every reference of an owner leads somewhere.
    fn entries(&mut self, txn: &mut Transaction<'_>, owner: &Handle, composite: &Composite) {
        if !self.owners.insert(*owner) {
            return;
        }
        for (tag, entry) in &composite.entries {
            let object = match entry {
                Entry::Value(_) => continue,
                Entry::Linked(number) => {
                    let key = ObjectKey::Linked(*number);
                    match txn.header(&key) {
                        Ok(Some(header)) if header.owner == owner.as_bytes() => continue,
                        Ok(_) => key,
                        // Damage is found where the object itself is looked at.
                        Err(_) => continue,
                    }
                }
                Entry::Shared { number, place } => match txn.enrolled(*number, *place) {
                    Ok(Some(enrolled)) if enrolled == *owner => continue,
                    Ok(_) | Err(MetaError::Missing { .. }) => ObjectKey::Shared(*number),
                    Err(_) => continue,
                },
            };
            self.find(Finding::Dangling {
                owner: *owner,
                tag: *tag,
                object,
            });
        }
    }

    fn roster(&mut self, txn: &mut Transaction<'_>, number: Number, roster: &Header) {
        let object = ObjectKey::Roster(number);
        let shared = match txn.header(&ObjectKey::Shared(number)) {
            Ok(Some(shared)) => shared,
            Ok(None) => return self.find(Finding::Alone { object }),
            Err(_) => return,
        };
        let content = match txn.content(&object, roster) {
            Ok(content) => content,
            Err(error) => return self.find(Finding::Damaged { object, error }),
        };
        let (entries, rest) = content.as_chunks::<ROSTER_ENTRY_BYTES>();
        let mut found = 0;
        let mut free = HashSet::new();
        let mut bad = !rest.is_empty();
        for (place, bytes) in (0..).zip(entries) {
            match RosterEntry::decode(bytes) {
                Some(RosterEntry::Used(owner)) => {
                    found += 1;
                    self.sharer(txn, number, place, owner);
                }
                Some(RosterEntry::Free(_)) => {
                    free.insert(place + 1);
                }
                None => bad = true,
            }
        }
        let mut next = roster.free;
        while next != 0 && free.remove(&next) {
            let entry = entries.get(next as usize - 1).and_then(RosterEntry::decode);
            next = match entry {
                Some(RosterEntry::Free(next)) => next,
                _ => 0,
            };
        }
        if bad || next != 0 || !free.is_empty() {
            self.find(Finding::BadFreeList { object });
        }
        if found != shared.references {
            let stored = shared.references;
            self.find(Finding::WrongCount {
                number,
                stored,
                found,
            });
        }
    }

    fn sharer(&mut self, txn: &mut Transaction<'_>, number: Number, place: u32, owner: Handle) {
        let wanted = Entry::Shared { number, place };
        match txn.composite(&owner) {
            Ok(composite) if composite.entries.values().any(|entry| *entry == wanted) => {
                self.entries(txn, &owner, &composite);
            }
            Ok(_) => self.find(Finding::NotSharing {
                number,
                place,
                owner,
            }),
            Err(MetaError::OwnerGone) => self.find(Finding::SharerGone {
                number,
                place,
                owner,
            }),
            Err(error) => self.bad_attribute(owner, error),
        }
    }
}
