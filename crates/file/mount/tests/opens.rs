//! A layer that wants to know of open files, on a real mount. Needs root and /dev/fuse.

use holdfast_mount::opens::{Answer, Handle, Opens, Pages};
use holdfast_mount::{
    Attr, Caller, Errno, Ino, Kind, Layer, Listing, Options, Result, Session, Space, Timestamp,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

/// A number as `_IOR('x', 1, __u32)` has it, and one as `_IO('x', 2)`.
const ASK: libc::Ioctl = 0x8004_7801;
const TURN: libc::Ioctl = 0x7802;

/// One file of one byte, which a command changes behind the kernel's back.
#[derive(Default)]
struct Noting {
    notes: Mutex<Vec<(&'static str, u64)>>,
    byte: Mutex<u8>,
}

impl Noting {
    fn note(&self, what: &'static str, handle: Handle) {
        self.notes.lock().unwrap().push((what, handle.0));
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        self.notes.lock().unwrap().clone()
    }
}

impl Opens for Noting {
    fn open(&self, _: Ino, handle: Handle, write: bool) -> Result<()> {
        self.note(if write { "open to write" } else { "open" }, handle);
        Ok(())
    }
    fn flush(&self, _: &Caller, _: Ino, handle: Handle) -> Pages {
        self.note("flush", handle);
        Pages::Keep
    }
    fn release(&self, _: Ino, handle: Handle) -> Pages {
        self.note("release", handle);
        Pages::Keep
    }
    fn command(
        &self,
        _: &Caller,
        _: Ino,
        handle: Handle,
        number: u32,
        _: &[u8],
        output_bytes: usize,
    ) -> Answer {
        self.note("command", handle);
        match number {
            0x8004_7801 => Answer::of(Ok(vec![7; output_bytes])),
            0x7802 => {
                *self.byte.lock().unwrap() += 1;
                Answer {
                    result: Ok(Vec::new()),
                    pages: Pages::Drop,
                }
            }
            _ => Answer::of(Err(Errno::NOTTY)),
        }
    }
}

fn attr(ino: Ino) -> Attr {
    let time = Timestamp::default();
    let is_root = ino == Ino::ROOT;
    Attr {
        kind: if is_root { Kind::Dir } else { Kind::File },
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 1,
        blocks: 8,
        blksize: 4096,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

impl Layer for Noting {
    fn opens(&self) -> Option<&dyn Opens> {
        Some(self)
    }
    fn lookup(&self, _: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        match name == "file" {
            true => Ok((Ino(2), attr(Ino(2)))),
            false => Err(Errno::NOENT),
        }
    }
    fn forget(&self, _: Ino) {}
    fn name_of(&self, _: Ino) -> Option<(Ino, OsString)> {
        None
    }
    fn attr(&self, ino: Ino) -> Result<Attr> {
        Ok(attr(ino))
    }
    fn list(&self, _: Ino) -> Result<Listing> {
        Ok(Listing::default())
    }
    fn read(&self, _: Ino, _: u64, buffer: &mut [u8]) -> Result<usize> {
        buffer[0] = *self.byte.lock().unwrap();
        Ok(1)
    }
    fn sync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }
    fn seek(&self, _: Ino, _: u64, _: bool) -> Result<u64> {
        Err(Errno::NXIO)
    }
    fn space(&self) -> Result<Space> {
        Ok(Space::default())
    }
}

#[expect(unsafe_code, reason = "ioctl(2) has no other form")]
fn say(file: &File, number: libc::Ioctl) -> std::io::Result<u32> {
    let mut output = 0_u32;
    // SAFETY: the descriptor is open while `file` is borrowed, and the one command with an
    // argument writes four bytes to it.
    match unsafe { libc::ioctl(file.as_raw_fd(), number, &raw mut output) } {
        0 => Ok(output),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn byte(file: &File) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).expect("reads");
    byte[0]
}

#[test]
fn a_layer_that_wants_it_is_told_of_opens_closes_and_commands() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let layer = Arc::new(Noting::default());
    let shared: Arc<dyn Layer> = layer.clone();
    let session = Session::start(shared, place.path(), &Options::default()).expect("mounts");
    let path = place.path().join("file");
    let reader = File::open(&path).expect("opens");
    let writer = File::options().write(true).open(&path).expect("opens");
    assert_eq!(layer.notes(), [("open", 1), ("open to write", 2)]);

    assert_eq!(say(&writer, ASK).expect("answers"), 0x0707_0707);
    assert_eq!(byte(&reader), 0);
    *layer.byte.lock().unwrap() = 5;
    assert_eq!(byte(&reader), 0, "the kernel has the page");
    say(&writer, TURN).expect("answers");
    assert_eq!(byte(&reader), 6, "it has let go of it before the answer");
    let unknown = say(&reader, 0x7803).expect_err("there is no such command");
    assert_eq!(unknown.raw_os_error(), Some(libc::ENOTTY));

    let second = writer.try_clone().expect("a second descriptor");
    drop(second);
    drop(writer);
    let flushes = layer
        .notes()
        .into_iter()
        .filter(|note| *note == ("flush", 2));
    assert_eq!(
        flushes.count(),
        2,
        "one for each descriptor, before close(2) returns"
    );
    drop(reader);
    // The kernel tells of last closes beside the program.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let both = |notes: &[_]| notes.contains(&("release", 1)) && notes.contains(&("release", 2));
    while !both(&layer.notes()) && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(both(&layer.notes()), "{:?}", layer.notes());
    assert!(
        !layer.notes().contains(&("flush", 1)),
        "readers have nothing to flush"
    );
    session
        .unmount(std::time::Duration::from_secs(30))
        .expect("unmounts");
}
