//! Open files without a name, while a store is brought back: no directory leads to them, so they
//! are copied from the open files, and the store's copies come in with the store.

use super::Engine;
use crate::inode::Inode;
use crate::journal::dirty::DirtySet;
use crate::label::{ObjectId, StoreIndex};
use crate::resync::apply::fresh_name;
use crate::resync::content::{Failed, copy_attributes, equal_range};
use crate::resync::pace::Pace;
use crate::store::{Make, Node, Store, StoreFile};
use env::errno::Errno;
use mount::{Kind, NewObject, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Copies on the store that is being brought back, by object.
#[derive(Default)]
pub(super) struct Nameless {
    copies: BTreeMap<ObjectId, Copy>,
}

struct Copy {
    inode: Arc<Inode>,
    node: Node,
    file: Arc<dyn StoreFile>,
}

impl Nameless {
    /// Brings every open file without a name that the store is to hold up to date there: in whole
    /// where it was not there before, else what is in `dirty`.
    pub(super) fn catch_up(
        &mut self,
        engine: &Engine,
        target: &(StoreIndex, Arc<dyn Store>),
        dirty: &DirtySet,
        pace: &Pace,
    ) -> Result<()> {
        let open: Vec<_> = engine
            .inodes
            .all()
            .into_iter()
            .filter(|i| i.kind == Kind::File && i.is_nameless() && i.open_files().is_some())
            .filter(|i| i.label().copies.has(target.0))
            .collect();
        self.copies
            .retain(|id, _| open.iter().any(|inode| inode.id == *id));
        for inode in open {
            pace.check()?;
            let files = match engine.open_copies(&inode, false) {
                Ok(files) => files,
                // Its last copy went with a store: there is nothing to bring.
                Err(Errno::IO) => continue,
                Err(errno) => return Err(errno),
            };
            let Some((holder, source)) = files.files.first() else {
                continue;
            };
            let length = source.attr()?.size;
            let known = self.copies.get(&inode.id);
            let ranges = match known {
                Some(_) if inode.id < dirty.mark => dirty.ranges(inode.id, length),
                _ => vec![(0, length)],
            };
            let (node, file) = match known {
                Some(copy) => (copy.node.clone(), copy.file.clone()),
                None => make(&*target.1, &inode)?,
            };
            if file.attr()?.size != length {
                file.set_len(length)?;
            }
            for (start, end) in ranges {
                let end = end.min(length);
                if start < end {
                    equal_range(&**source, &*file, start, end - start, pace)
                        .map_err(Failed::errno)?;
                }
            }
            if let Some(original) = inode.node(*holder) {
                let copied =
                    copy_attributes((&*engine.store(*holder)?, &original), (&*target.1, &node));
                match copied {
                    // A store may not find an object without a name; its content is what counts.
                    Err(Errno::STALE | Errno::NOENT) => {}
                    other => other?,
                }
            }
            self.copies.insert(inode.id, Copy { inode, node, file });
        }
        Ok(())
    }

    /// The store has joined: its copies take part. The caller holds the gate for writing.
    pub(super) fn adopt(self, index: StoreIndex) {
        for copy in self.copies.into_values() {
            copy.inode.add_open(index, copy.node, copy.file);
        }
    }
}

/// An open file without a name.
fn make(store: &dyn Store, inode: &Inode) -> Result<(Node, Arc<dyn StoreFile>)> {
    let aside = store.aside()?;
    let name = fresh_name(inode.id);
    match store.unlink(&aside, &name) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let make = Make {
        object: NewObject::File,
        mode: 0o600,
        umask: 0,
        uid: 0,
        gid: 0,
        label: inode.label(),
    };
    let made = store.make(&aside, &name, &make)?;
    let file = store.open(&made.node, true);
    store.unlink(&aside, &name)?;
    Ok((made.node, file?))
}
