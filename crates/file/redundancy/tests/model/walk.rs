//! Reads a whole tree: through a layer, or from one store alone.

use anyhow::{Context, Result, ensure};
use holdfast_redundancy::label::ObjectId;
use holdfast_redundancy::model::{Seen, Snapshot};
use holdfast_redundancy::store::{Node, Store};
use mount::{Attr, Errno, Ino, Kind, Layer};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

fn seen(attr: &Attr) -> Seen {
    Seen {
        kind: attr.kind,
        mode: attr.perm,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        rdev: attr.rdev,
        target: OsString::new(),
        xattrs: BTreeMap::new(),
        content: Vec::new(),
    }
}

fn names(list: &[u8]) -> impl Iterator<Item = &OsStr> {
    list.split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(OsStr::from_bytes)
}

/// Everything that the layer shows.
pub(crate) fn through(layer: &dyn Layer) -> Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    let mut todo = vec![Ino::ROOT];
    while let Some(ino) = todo.pop() {
        if snapshot.objects.contains_key(&ino.0) {
            continue;
        }
        let attr = layer
            .attr(ino)
            .with_context(|| format!("attr of {ino:?}"))?;
        let mut object = seen(&attr);
        match attr.kind {
            Kind::Dir => {
                let listing = layer.list(ino).with_context(|| format!("list {ino:?}"))?;
                for index in 0..listing.len() {
                    let (name, kind, _) = listing.get(index).context("an entry")?;
                    let (child, attr) = layer
                        .lookup(ino, name)
                        .with_context(|| format!("lookup of listed {name:?} in {ino:?}"))?;
                    ensure!(
                        kind == attr.kind,
                        "{name:?} is listed as {kind:?}, is {attr:?}"
                    );
                    let earlier = snapshot.entries.insert((ino.0, name.to_owned()), child.0);
                    ensure!(earlier.is_none(), "{name:?} is listed twice in {ino:?}");
                    todo.push(child);
                }
            }
            Kind::File => {
                object.content = vec![0; attr.size as usize];
                let count = layer
                    .read(ino, 0, &mut object.content)
                    .with_context(|| format!("read of {ino:?}"))?;
                ensure!(
                    count as u64 == attr.size,
                    "{ino:?}: {count} bytes read of {}",
                    attr.size
                );
            }
            Kind::Symlink => object.target = layer.read_link(ino).context("read_link")?,
            _ => {}
        }
        if attr.kind != Kind::Symlink {
            for name in names(&layer.list_xattr(ino).context("list_xattr")?) {
                let value = layer.xattr(ino, name).context("xattr")?;
                object.xattrs.insert(name.to_owned(), value);
            }
        }
        snapshot.objects.insert(ino.0, object);
    }
    Ok(snapshot)
}

/// What one store holds, and the stores that its labels name, by object.
pub(crate) fn store(store: &dyn Store) -> Result<(Snapshot, BTreeMap<u64, u64>)> {
    let mut snapshot = Snapshot::default();
    let mut copies = BTreeMap::new();
    let mut done: BTreeSet<Node> = BTreeSet::new();
    let mut todo = vec![(store.root()?, ObjectId::ROOT.0)];
    while let Some((node, id)) = todo.pop() {
        if !done.insert(node.clone()) {
            continue;
        }
        let found = store.inspect(&node)?;
        let mut object = seen(&found.attr);
        if let Some(label) = found.label {
            copies.insert(id, label.copies.0);
        }
        match found.attr.kind {
            Kind::Dir => {
                let mut entries = Vec::new();
                store.list(&node, &mut |name, _| entries.push(name.to_owned()))?;
                for name in entries {
                    let child = store.lookup(&node, &name)?;
                    let label = child
                        .label
                        .with_context(|| format!("{name:?} in {id} has no label"))?;
                    todo.push((child.node, label.id.0));
                    snapshot.entries.insert((id, name), label.id.0);
                }
            }
            Kind::File => {
                object.content = vec![0; found.attr.size as usize];
                store.open(&node, false)?.read_at(0, &mut object.content)?;
            }
            Kind::Symlink => object.target = store.read_link(&node)?,
            _ => {}
        }
        let list = match store.list_xattr(&node) {
            Err(Errno::OPNOTSUPP) => Vec::new(),
            other => other?,
        };
        for name in names(&list) {
            object
                .xattrs
                .insert(name.to_owned(), store.xattr(&node, name)?);
        }
        let earlier = snapshot.objects.insert(id, object);
        ensure!(
            earlier.is_none(),
            "two objects of the store carry the label of object {id}"
        );
    }
    Ok((snapshot, copies))
}
