//! File systems on loop devices, and their end.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own in a temporary directory, unmounted when dropped.
pub(crate) struct Mounted {
    home: tempfile::TempDir,
}

pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|why| panic!("{program}: {why}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Mounted {
    /// A new file system made by `mkfs.KIND` with its defaults, `bytes` long.
    pub(crate) fn new(kind: &str, bytes: u64) -> Mounted {
        let mounted = Mounted {
            home: tempfile::tempdir().unwrap(),
        };
        let image = mounted.home.path().join("image");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(bytes))
            .unwrap();
        let image = image.to_str().unwrap();
        run(&format!("mkfs.{kind}"), &["-q", image]);
        std::fs::create_dir(mounted.path()).unwrap();
        let path = mounted.path();
        run("mount", &["-o", "loop", image, path.to_str().unwrap()]);
        mounted
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.home.path().join("mount")
    }

    /// Mounts it anew: nothing is left in a cache.
    pub(crate) fn remount(&self) {
        let path = self.path();
        let path = path.to_str().unwrap();
        let image = self.home.path().join("image");
        run("umount", &[path]);
        run("mount", &["-o", "loop", image.to_str().unwrap(), path]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that failed half way may not have mounted anything.
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

/// A new, empty file.
pub(crate) fn touch(path: &Path) {
    std::fs::File::create(path).unwrap();
}
