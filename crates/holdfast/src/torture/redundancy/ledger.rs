//! What one writer knows of its part of the tree, and whether the mount agrees.

use ::redundancy::model::{Certain, Meta, Moment, NewNode, Seen, Snapshot, Tree};
use anyhow::{Context, Result};
use mount::Kind;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One writer's directory in memory.
pub(super) struct Ledger {
    /// Where it is.
    pub(super) root: PathBuf,
    pub(super) tree: Tree,
    /// Directories below the root: inode number and name.
    pub(super) dirs: Vec<(u64, String)>,
    /// Set while it is not known whether the last call happened: what came up to here did.
    pub(super) uncertain: Option<Moment>,
}

/// What an object is now.
fn seen(path: &Path) -> Result<(u64, Seen)> {
    let meta = fs::symlink_metadata(path).with_context(|| format!("stat {}", path.display()))?;
    let kind = match meta.file_type() {
        t if t.is_dir() => Kind::Dir,
        t if t.is_symlink() => Kind::Symlink,
        t if t.is_fifo() => Kind::Fifo,
        _ => Kind::File,
    };
    let content = match kind {
        Kind::File => fs::read(path).with_context(|| format!("read {}", path.display()))?,
        _ => Vec::new(),
    };
    let seen = Seen {
        kind,
        mode: (meta.mode() & 0o7777) as u16,
        uid: meta.uid(),
        gid: meta.gid(),
        nlink: u32::try_from(meta.nlink()).context("a link count")?,
        rdev: u32::try_from(meta.rdev()).context("a device number")?,
        target: OsString::new(),
        xattrs: BTreeMap::new(),
        content,
    };
    Ok((meta.ino(), seen))
}

/// How an object that a writer makes starts.
pub(super) fn new_node(kind: Kind) -> NewNode {
    let mode = if kind == Kind::Dir { 0o755 } else { 0o644 };
    let (uid, gid) = owner();
    NewNode {
        kind,
        meta: Meta { mode, uid, gid },
        rdev: 0,
        target: OsString::new(),
    }
}

fn owner() -> (u32, u32) {
    let uid = rustix::process::geteuid().as_raw();
    (uid, rustix::process::getegid().as_raw())
}

/// Reads everything below `root`.
pub(super) fn snapshot(root: &Path) -> Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    let (ino, object) = seen(root)?;
    snapshot.objects.insert(ino, object);
    let mut todo = vec![(ino, root.to_path_buf())];
    while let Some((dir, path)) = todo.pop() {
        let entries = fs::read_dir(&path).with_context(|| format!("list {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", path.display()))?;
            let (ino, object) = seen(&entry.path())?;
            if object.kind == Kind::Dir {
                todo.push((ino, entry.path()));
            }
            snapshot.entries.insert((dir, entry.file_name()), ino);
            snapshot.objects.insert(ino, object);
        }
    }
    Ok(snapshot)
}

impl Ledger {
    /// Makes the writer's directory with two below it, all durable.
    pub(super) fn create(root: PathBuf) -> Result<Ledger> {
        let made = |path: &Path| -> Result<u64> {
            fs::create_dir(path).with_context(|| format!("mkdir {}", path.display()))?;
            let dir = fs::File::open(path)?;
            dir.sync_all()?;
            Ok(dir.metadata()?.ino())
        };
        let ino = made(&root)?;
        let mut tree = Tree::new(ino, new_node(Kind::Dir).meta);
        let mut dirs = Vec::new();
        for name in ["a", "b"] {
            let below = made(&root.join(name))?;
            tree.make(ino, name.as_ref(), below, new_node(Kind::Dir));
            dirs.push((below, name.to_owned()));
        }
        fs::File::open(&root)?.sync_all()?;
        tree.sync_all();
        Ok(Ledger {
            root,
            tree,
            dirs,
            uncertain: None,
        })
    }

    /// Path of a name in one of the directories.
    pub(super) fn path(&self, dir: u64, name: &std::ffi::OsStr) -> PathBuf {
        let below = self.dirs.iter().find(|(ino, _)| *ino == dir);
        match below {
            Some((_, dir)) => self.root.join(dir).join(name),
            None => self.root.join(name),
        }
    }

    /// Compares the mount with the ledger; what is there is the present from then on. The answer
    /// counts the objects and says what is broken.
    pub(super) fn compare(&mut self) -> Result<(u64, Option<String>)> {
        let found = snapshot(&self.root)?;
        let certain = match self.uncertain.take() {
            Some(moment) => Certain::UpTo(moment),
            None => Certain::Now,
        };
        let broken = self.tree.check(&found, certain).err().map(|difference| {
            // What was synced must survive anything; what was acknowledged must survive the
            // loss of the process and of stores.
            let lost = match self.tree.check(&found, Certain::Synced) {
                Err(_) => "synced",
                Ok(()) => "acknowledged",
            };
            format!("{}: {lost} state lost: {difference}", self.root.display())
        });
        self.tree.adopt(&found);
        self.tree.forget_gone(|_| false);
        Ok((found.objects.len() as u64, broken))
    }

    /// Compares the plain files of the stores, each a `data` directory, with the ledger: `copies`
    /// of each file, all equal.
    pub(super) fn compare_plain(&self, data: &[PathBuf], copies: usize) -> Result<Vec<String>> {
        let mut broken = Vec::new();
        let top = self.root.file_name().context("a writer's directory")?;
        for (dir, name) in &self.dirs {
            for (entry, ino) in self.tree.entries(*dir) {
                let Some(object) = self.tree.object(ino) else {
                    continue;
                };
                let mut count = 0;
                for store in data {
                    let path = store.join(top).join(name).join(entry);
                    match fs::read(&path) {
                        Ok(content) if content == object.content.now() => count += 1,
                        Ok(_) => broken.push(format!("{}: other bytes", path.display())),
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        Err(error) => broken.push(format!("{}: {error}", path.display())),
                    }
                }
                if count < copies {
                    let path = self.path(*dir, entry);
                    broken.push(format!("{}: {count} copies of {copies}", path.display()));
                }
            }
        }
        Ok(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer;
    use super::*;

    fn busy(operations: u64) -> (tempfile::TempDir, Ledger) {
        let place = tempfile::tempdir().expect("a directory");
        let mut ledger = Ledger::create(place.path().join("w0")).expect("a ledger");
        let mut rng = env::Rng::new(7);
        for _ in 0..operations {
            writer::operate(&mut ledger, &mut rng).expect("a working file system");
        }
        (place, ledger)
    }

    #[test]
    fn a_sound_file_system_agrees_with_the_ledger() {
        let (place, mut ledger) = busy(600);
        let (objects, broken) = ledger.compare().expect("compares");
        assert_eq!(broken, None);
        assert!(objects > 5);
        let plain = ledger.compare_plain(&[place.path().to_path_buf()], 1);
        assert_eq!(plain.expect("compares"), Vec::<String>::new());
    }

    #[test]
    fn a_changed_byte_a_missing_file_and_a_returned_name_are_reported() {
        let damage: [fn(&Path); 3] = [
            |path| {
                let mut bytes = fs::read(path).expect("read");
                bytes[0] ^= 1;
                fs::write(path, bytes).expect("write");
            },
            |path| fs::remove_file(path).expect("remove"),
            |path| {
                fs::hard_link(path, path.with_file_name("unasked")).expect("link");
            },
        ];
        for (index, damage) in damage.iter().enumerate() {
            let (_place, mut ledger) = busy(300);
            let (dir, _) = ledger.dirs[0];
            let (name, _) = ledger
                .tree
                .entries(dir)
                .find(|(_, ino)| {
                    let object = ledger.tree.object(*ino).expect("an object");
                    !object.content.now().is_empty()
                })
                .expect("a file with content");
            let path = ledger.path(dir, name);
            damage(&path);
            let (_, broken) = ledger.compare().expect("compares");
            assert!(broken.is_some(), "damage {index} went unnoticed");
        }
    }

    #[test]
    fn an_uncertain_call_may_have_happened_or_not() {
        let (_place, mut ledger) = busy(100);
        ledger.uncertain = Some(ledger.tree.moment());
        let (dir, _) = ledger.dirs[1];
        ledger
            .tree
            .make_perhaps(dir, "never".as_ref(), new_node(Kind::File));
        let (_, broken) = ledger.compare().expect("compares");
        assert_eq!(broken, None);
        let (_, broken) = ledger.compare().expect("compares");
        assert_eq!(broken, None, "what was found is the present");
    }
}
