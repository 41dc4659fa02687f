//! What the writers do to the mount.

use super::ledger::{Ledger, new_node};
use env::Rng;
use mount::Kind;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest file, bytes.
const MOST_BYTES: u64 = 256 * 1024;
/// Names that a writer uses in each directory.
const NAMES: u64 = 10;
/// Names in the shared directory.
const SHARED_NAMES: u64 = 24;
/// Bytes of a file in the shared directory: one 8-byte tag again and again.
pub(super) const SHARED_BYTES: usize = 64;

/// One random call on the writer's own files.
///
/// # Errors
/// The call's. The ledger then holds it as one that may have happened.
pub(super) fn operate(ledger: &mut Ledger, rng: &mut Rng) -> io::Result<()> {
    let floor = ledger.tree.moment();
    let result = call(ledger, rng);
    if result.is_err() {
        ledger.uncertain = Some(floor);
    }
    result
}

fn call(ledger: &mut Ledger, rng: &mut Rng) -> io::Result<()> {
    let (dir, _) = ledger.dirs[rng.index(ledger.dirs.len())];
    let name = OsString::from(format!("f{}", rng.below(NAMES)));
    let path = ledger.path(dir, &name);
    let Some(ino) = ledger.tree.find(dir, &name) else {
        return create(ledger, dir, &name, &path);
    };
    match rng.below(16) {
        0..=6 => {
            let size = ledger.tree.object(ino).map_or(0, |o| o.content.now().len()) as u64;
            let offset = match rng.below(3) {
                0 => size,
                1 => rng.below(size.max(1)),
                _ => rng.below(MOST_BYTES / 4096) * 4096,
            };
            let length = (1 + rng.below(24 * 1024)).min(MOST_BYTES.saturating_sub(offset));
            let mut data = vec![0; length as usize];
            rng.fill(&mut data);
            let file = OpenOptions::new().write(true).open(&path);
            let written = file.and_then(|file| file.write_all_at(&data, offset));
            ledger
                .tree
                .change_content(ino, |content, at| content.write(at, offset, &data));
            written
        }
        7 => {
            let length = rng.below(MOST_BYTES / 2);
            let file = OpenOptions::new().write(true).open(&path);
            let cut = file.and_then(|file| file.set_len(length));
            ledger
                .tree
                .change_content(ino, |content, at| content.truncate(at, length));
            cut
        }
        8..=10 => {
            let data_only = rng.chance(1, 3);
            let file = OpenOptions::new().write(true).open(&path)?;
            if data_only {
                file.sync_data()?
            } else {
                file.sync_all()?
            }
            ledger.tree.sync(ino, data_only);
            Ok(())
        }
        11 => {
            let parent = path.parent().unwrap_or(&ledger.root);
            File::open(parent)?.sync_all()?;
            ledger.tree.sync(dir, false);
            Ok(())
        }
        12 | 13 => {
            let (to_dir, _) = ledger.dirs[rng.index(ledger.dirs.len())];
            let to_name = OsString::from(format!("f{}", rng.below(NAMES)));
            let renamed = fs::rename(&path, ledger.path(to_dir, &to_name));
            ledger.tree.rename((dir, &name), (to_dir, &to_name));
            renamed
        }
        14 => {
            let (to_dir, _) = ledger.dirs[rng.index(ledger.dirs.len())];
            let to_name = OsString::from(format!("f{}", rng.below(NAMES)));
            if ledger.tree.find(to_dir, &to_name).is_some() {
                return Ok(());
            }
            let linked = fs::hard_link(&path, ledger.path(to_dir, &to_name));
            ledger.tree.link(ino, to_dir, &to_name);
            linked
        }
        _ => {
            let removed = fs::remove_file(&path);
            ledger.tree.unlink(dir, &name);
            removed
        }
    }
}

fn create(ledger: &mut Ledger, dir: u64, name: &OsString, path: &Path) -> io::Result<()> {
    let node = new_node(Kind::File);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(node.meta.mode.into())
        .open(path)
        .and_then(|file| file.metadata());
    match made {
        Ok(meta) => {
            ledger.tree.make(dir, name, meta.ino(), node);
            Ok(())
        }
        Err(error) => {
            ledger.tree.make_perhaps(dir, name, node);
            Err(error)
        }
    }
}

/// One random call in the directory that all writers share. Files get there whole and synced,
/// so whatever has a name there is whole.
///
/// # Errors
/// The call's, other than that another writer was faster.
pub(super) fn churn(shared: &Path, who: usize, rng: &mut Rng) -> io::Result<()> {
    let mut name = || shared.join(format!("s{}", rng.below(SHARED_NAMES)));
    let (one, other) = (name(), name());
    let result = match rng.below(5) {
        0 | 1 => {
            let fresh = shared.join(format!("new-{who}"));
            let tag = rng.next_u64().to_le_bytes();
            let whole = tag.repeat(SHARED_BYTES / tag.len());
            fs::write(&fresh, whole)
                .and_then(|()| File::open(&fresh)?.sync_all())
                .and_then(|()| fs::rename(&fresh, &one))
        }
        2 => fs::rename(&one, &other),
        3 => fs::hard_link(&one, &other),
        _ => fs::remove_file(&one),
    };
    match result {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// What is wrong with the shared directory.
///
/// # Errors
/// It cannot be read.
pub(super) fn compare_shared(shared: &Path) -> io::Result<(u64, Vec<String>)> {
    let mut broken = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(shared)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b"s") {
            continue;
        }
        count += 1;
        let path = entry.path();
        match fs::read(&path) {
            Ok(bytes) => {
                let whole =
                    bytes.len() == SHARED_BYTES && bytes.chunks(8).all(|c| c == &bytes[..8]);
                if !whole {
                    broken.push(format!("{}: not whole", path.display()));
                }
            }
            Err(error) => broken.push(format!("{}: listed, and {error}", path.display())),
        }
    }
    Ok((count, broken))
}
