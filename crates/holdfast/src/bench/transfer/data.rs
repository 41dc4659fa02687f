//! The trees that are sent.

use crate::bench::tree;
use anyhow::{Context as _, bail, ensure};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const PIECE: usize = 4 << 20;

/// A tree.
pub(super) struct Data {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl Data {
    /// So many files of so many random bytes.
    pub(super) fn large(root: &Path, files: u64, bytes: u64) -> anyhow::Result<Data> {
        let path = root.join("large");
        fs::create_dir(&path)?;
        let mut rng = env::Rng::new(1);
        let mut piece = vec![0; PIECE];
        for number in 0..files {
            let file = File::create(path.join(number.to_string()))?;
            for at in (0..bytes).step_by(PIECE) {
                rng.fill(&mut piece);
                file.write_all_at(&piece, at)?;
            }
        }
        tree::sync(root)?;
        let name = format!("{files} files of {}", crate::units::bytes(bytes));
        Ok(Data { name, path })
    }

    /// So many files of 3000 to 5200 random bytes, 500 in a directory.
    pub(super) fn small(root: &Path, files: u64) -> anyhow::Result<Data> {
        let path = root.join("small");
        let mut rng = env::Rng::new(2);
        for number in 0..files {
            let dir = path.join((number / 500).to_string());
            if number % 500 == 0 {
                fs::create_dir_all(&dir)?;
            }
            let mut content = vec![0; 3000 + rng.index(2200)];
            rng.fill(&mut content);
            fs::write(dir.join(number.to_string()), content)?;
        }
        tree::sync(root)?;
        let name = format!("{files} files of 4 KiB");
        Ok(Data { name, path })
    }

    /// Reads it all, so that every run finds it in memory, if there is room.
    pub(super) fn warm(&self) -> anyhow::Result<()> {
        let mut piece = vec![0; PIECE];
        tree::walk(&self.path, &[], &mut |path, _| {
            let mut file = File::open(path)?;
            while file.read(&mut piece)? > 0 {}
            Ok(())
        })?;
        Ok(())
    }

    /// A copy that may be changed.
    pub(super) fn copy_to(&self, to: &Path) -> anyhow::Result<()> {
        super::timed::shell("cp -a \"$1\" \"$2\"; sync -f \"$2\"", &[&self.path, to])
    }
}

/// Changes one page of each hundred, in every file.
pub(super) fn change(path: &Path) -> anyhow::Result<()> {
    let mut rng = env::Rng::new(3);
    tree::walk(path, &[], &mut |path, found| {
        let file = File::options().write(true).open(path)?;
        for page in (0..found.len() / 4096).step_by(100) {
            let mut bytes = [0; 64];
            rng.fill(&mut bytes);
            file.write_all_at(&bytes, page * 4096)?;
        }
        Ok(())
    })?;
    tree::sync(path)
}

/// Compares both trees, by names and bytes.
pub(super) fn same(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut count = 0;
    let files = tree::walk(from, &[], &mut |path, _| {
        let other = to.join(path.strip_prefix(from)?);
        let (mut a, mut b) = (File::open(path)?, File::open(&other)?);
        let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
        loop {
            let count = a.read(&mut left)?;
            let part = right.get_mut(..count.max(1)).unwrap_or_default();
            if count == 0 {
                ensure!(b.read(part)? == 0, "{} is longer", other.display());
                break;
            }
            b.read_exact(part)
                .with_context(|| format!("{}", other.display()))?;
            if left.get(..count) != Some(part) {
                bail!("{} differs", other.display());
            }
        }
        count += 1;
        Ok(())
    })?;
    ensure!(count == files, "{count} of {files} files");
    Ok(())
}

/// Removes a tree, and has the file system done with it before the next run.
pub(super) fn gone(path: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(path)?;
    tree::sync(path.parent().context("a parent")?)
}
