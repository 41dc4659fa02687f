//! Loop devices: attached to a file, and let go safely.
//!
//! Detaching is asynchronous: where something has the device open the kernel only notes that it is
//! to go with the last close (LO_FLAGS_AUTOCLEAR, drivers/block/loop.c), and in any case the file
//! below is closed later than the command returns. So who serves that file has to wait.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a sector: 512 or 4096.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sector(u32);

impl Sector {
    /// The number.
    #[cfg(feature = "ublk")]
    pub(super) fn bytes(self) -> u32 {
        self.0
    }

    /// # Errors
    /// What is wrong with the text.
    pub(super) fn parse(text: &str) -> Result<Sector, String> {
        match text {
            "512" => Ok(Sector(512)),
            "4096" | "4K" => Ok(Sector(4096)),
            _ => Err("want 512 or 4096".to_owned()),
        }
    }
}

/// A loop device that this process has attached.
pub(super) struct Loop {
    path: PathBuf,
    /// The file, as the kernel names it.
    file: PathBuf,
}

impl Loop {
    /// Attaches a free one to a file, past the page cache.
    ///
    /// # Errors
    /// losetup(8) failed.
    pub(super) fn attach(file: &Path, sector: Sector) -> Outcome<Loop> {
        let sector = sector.0.to_string();
        let options = [
            "--find",
            "--show",
            "--direct-io=on",
            "--sector-size",
            &sector,
        ];
        let said = losetup(options.iter().map(OsStr::new).chain([file.as_os_str()]))?;
        Ok(Loop {
            path: PathBuf::from(said.trim()),
            file: file.to_path_buf(),
        })
    }

    /// Its device file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the kernel to let it go as soon as nobody has it open.
    ///
    /// # Errors
    /// losetup(8) failed.
    pub(super) fn detach(&self) -> Outcome<()> {
        // Somebody may have detached it already.
        match self.is_attached() {
            true => losetup([OsStr::new("--detach"), self.path.as_os_str()]).map(drop),
            false => Ok(()),
        }
    }

    /// Whether the kernel still has it attached to this file. Somebody else may have attached it to
    /// another one meanwhile; where the mount was taken away over it, the kernel has no path of the
    /// file any more, and it counts as still there.
    pub(super) fn is_attached(&self) -> bool {
        let Ok(now) = std::fs::read_to_string(self.folder("loop/backing_file")) else {
            return false;
        };
        let now = Path::new(now.trim_end());
        now == self.file || !now.exists()
    }

    /// Who keeps it from going, as far as can be told: where it is mounted, or what is stacked on
    /// it.
    pub(super) fn user(&self) -> Option<String> {
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mine = table.lines().find_map(|line| {
            let mut words = line.split(' ');
            let here = words.next() == self.path.to_str();
            here.then(|| words.next().unwrap_or_default().to_owned())
        });
        if let Some(place) = mine {
            return Some(format!("mounted on {place}"));
        }
        let mut holders = std::fs::read_dir(self.folder("holders")).ok()?;
        let holder = holders.next()?.ok()?.file_name();
        Some(format!("used by {}", holder.display()))
    }

    /// A folder of it in sysfs; `loop` is there while it is attached (loop_sysfs_init in
    /// drivers/block/loop.c).
    fn folder(&self, name: &str) -> PathBuf {
        let device = self.path.file_name().unwrap_or_default();
        Path::new("/sys/block").join(device).join(name)
    }
}

fn losetup<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Outcome<String> {
    let refused = |what: String| {
        Failure::refuse(
            Exit::Failed,
            what,
            "losetup(8) of util-linux has to be there, and the kernel's loop driver (`modprobe loop`)",
        )
    };
    let output = Command::new("losetup")
        .args(words)
        .output()
        .map_err(|error| refused(format!("losetup: {}", crate::os::words(&error))))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(refused(said.trim().to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_of_two_sizes() {
        assert_eq!(Sector::parse("512"), Ok(Sector(512)));
        assert_eq!(Sector::parse("4K"), Ok(Sector(4096)));
        for wrong in ["", "0", "1024", "four"] {
            assert!(Sector::parse(wrong).is_err(), "{wrong}");
        }
    }
}
