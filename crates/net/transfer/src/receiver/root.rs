//! The destination, out of which no path leads.

use crate::entry::TreePath;
use env::errno::Errno;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a path that one call takes (PATH_MAX of Linux is 4096).
const STEP_BYTES: usize = 3000;

/// Directories that stay open, for the files that follow in them.
const OPEN_MAX: usize = 16;

/// Never out of the root, never through a link, on no way that /proc offers.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The root of the destination. Every call on what is below works on a directory that
/// [`Root::directory`] opened, and one name.
pub(crate) struct Root {
    dir: Arc<OwnedFd>,
    open: VecDeque<(TreePath, Arc<OwnedFd>)>,
}

impl Root {
    pub(crate) fn new(dir: Arc<OwnedFd>) -> Root {
        Root {
            dir,
            open: VecDeque::new(),
        }
    }

    /// Opens a directory. ELOOP or ENOTDIR where something on the way is none.
    pub(crate) fn directory(&mut self, path: &TreePath) -> Result<Arc<OwnedFd>, Errno> {
        if path.is_root() {
            return Ok(self.dir.clone());
        }
        if let Some((_, dir)) = self.open.iter().find(|(known, _)| known == path) {
            return Ok(dir.clone());
        }
        let mut at = self.dir.clone();
        let mut step = Vec::new();
        for name in path.names() {
            if step.len() + name.len() > STEP_BYTES {
                at = Arc::new(open_below(&at, &step)?);
                step.clear();
            }
            if !step.is_empty() {
                step.push(b'/');
            }
            step.extend_from_slice(name);
        }
        let dir = Arc::new(open_below(&at, &step)?);
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((path.clone(), dir.clone()));
        Ok(dir)
    }

    /// Opens a file for reading; neither a link is followed nor a pipe waited for.
    pub(crate) fn file(&mut self, path: &TreePath) -> Result<OwnedFd, Errno> {
        let (dir, name) = path.split().ok_or(Errno::ISDIR)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat2(self.directory(&dir)?, name, flags, Mode::empty(), RESOLVE)
    }

    /// The root itself.
    pub(crate) fn opened(&self) -> Arc<OwnedFd> {
        self.dir.clone()
    }

    /// Forgets what is open: names may have changed.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }
}

fn open_below(dir: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(dir, path, flags, Mode::empty(), RESOLVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> TreePath {
        text.split('/')
            .fold(TreePath::root(), |path, name| path.join(name.as_bytes()))
    }

    #[test]
    fn nothing_outside_is_reached() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(place.path().join("out")).unwrap();
        std::fs::write(place.path().join("out/secret"), "x").unwrap();
        std::fs::write(root.join("a/file"), "x").unwrap();
        for (target, name) in [("../out", "up"), ("/etc", "etc"), ("a", "within")] {
            symlink(target, root.join(name)).unwrap();
        }
        symlink("../../out/secret", root.join("a/link")).unwrap();
        let dir = rustix::fs::open(&root, OFlags::RDONLY, Mode::empty()).unwrap();
        let mut root = Root::new(Arc::new(dir));
        assert!(root.directory(&path("a/b")).is_ok());
        assert!(root.file(&path("a/file")).is_ok());
        for bad in [
            "up",
            "etc",
            "within",
            "within/b",
            "..",
            "a/../..",
            "a/../../out",
        ] {
            assert!(root.directory(&path(bad)).is_err(), "{bad}");
        }
        for bad in ["a/link", "up/secret", "../out/secret", "a/../../out/secret"] {
            assert!(root.file(&path(bad)).is_err(), "{bad}");
        }
        let absolute = TreePath::root().join(b"/etc");
        assert!(root.directory(&absolute).is_err());
        let absolute = TreePath::root().join(b"/etc/passwd");
        assert!(root.file(&absolute).is_err());
    }

    #[test]
    fn a_path_longer_than_the_kernel_takes_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let dir = rustix::fs::open(place.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let mut root = Root::new(Arc::new(dir));
        let name = [b'n'; 200];
        let mut deep = TreePath::root();
        for _ in 0..60 {
            let at = root.directory(&deep).unwrap();
            rustix::fs::mkdirat(&at, &name[..], Mode::RWXU).unwrap();
            deep = deep.join(&name);
        }
        assert!(deep.as_bytes().len() > 12_000);
        assert!(root.directory(&deep).is_ok());
    }
}
