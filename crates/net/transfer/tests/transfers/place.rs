//! Where a test works.

use holdfast_transfer::{Level, Options, Report, STAGING, Settings, TransferError, local};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A directory with a source and a destination, gone with this value.
pub(crate) struct Place {
    home: tempfile::TempDir,
    /// Where the source is to be; nothing is there yet.
    pub(crate) source: PathBuf,
    /// Where the destination is to be; nothing is there yet.
    pub(crate) destination: PathBuf,
}

impl Place {
    /// On the file system that the build is on: one in memory has no device.
    pub(crate) fn new() -> Place {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let (source, destination) = (home.path().join("source"), home.path().join("destination"));
        Place {
            home,
            source,
            destination,
        }
    }

    /// With a source of one file, called `file`.
    pub(crate) fn with_file(content: impl AsRef<[u8]>) -> Place {
        let place = Place::new();
        fs::create_dir(&place.source).unwrap();
        fs::write(place.source.join("file"), content).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Transfers from one to the other, in this process.
    pub(crate) fn send(&self, level: Level, settings: &Settings) -> Sent {
        send(&self.source, &self.destination, level, settings)
    }
}

pub(crate) type Sent = Result<Report, TransferError>;

/// Transfers in this process.
pub(crate) fn send(source: &Path, destination: &Path, level: Level, settings: &Settings) -> Sent {
    let options = Options {
        level,
        ..Options::default()
    };
    local(source, destination, &options, settings, &mut |_| ())
}

/// A receiver that does something to each file that was synced, before it is read back.
pub(crate) fn harming(harm: impl Fn(&OwnedFd) + Send + Sync + 'static) -> Settings {
    Settings {
        after_sync: Some(Arc::new(harm)),
        ..Settings::default()
    }
}

pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    env::Rng::new(seed).fill(&mut bytes);
    bytes
}

/// All files below a directory, but for those that are not in place yet.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_path_buf();
            if relative.starts_with(STAGING) {
                continue;
            }
            match path.is_dir() {
                true => open.push(path),
                false => {
                    found.insert(relative, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

/// A file system of its own, gone with this value.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    /// In memory.
    pub(crate) fn in_memory(at: PathBuf, options: &str) -> Mounted {
        Mounted::new(at, &["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    /// Ext4 of 192 MiB in the file `image`, which is made, on a loop device.
    pub(crate) fn in_file(at: PathBuf, image: &Path) -> Mounted {
        let file = fs::File::create(image).unwrap();
        file.set_len(192 << 20).unwrap();
        let mut format = Command::new("mkfs.ext4");
        run(format.args(["-q", "-b", "4096"]).arg(image));
        Mounted::new(at, &["-o", "loop", image.to_str().unwrap()])
    }

    fn new(at: PathBuf, how: &[&str]) -> Mounted {
        fs::create_dir(&at).unwrap();
        run(Command::new("mount").args(how).arg(&at));
        Mounted(at)
    }

    /// Mounts it anew with other options.
    pub(crate) fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        run(mount
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.0));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
