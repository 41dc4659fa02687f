//! Real mounts of a layer that holds one empty directory and one file. Needs root and /dev/fuse.

use holdfast_mount::{
    Attr, Errno, Ino, Kind, Layer, Listing, MountError, Options, Result, Session, Space, Timestamp,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long an unmount may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

const CONTENT: &[u8] = b"content";

/// A read-only layer with the file `file` and as many names `1`, `2`, ... as it is asked for.
#[derive(Default)]
struct Still {
    forgotten: AtomicUsize,
    reads: AtomicUsize,
}

fn attr(kind: Kind) -> Attr {
    let time = Timestamp { sec: -1, nsec: 7 };
    Attr {
        kind,
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: CONTENT.len() as u64,
        blocks: 8,
        blksize: 4096,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

impl Layer for Still {
    fn lookup(&self, _: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        let name = name.to_str().ok_or(Errno::NOENT)?;
        match name.parse() {
            Ok(number) => Ok((Ino(number), attr(Kind::File))),
            Err(_) if name == "file" => Ok((Ino(2), attr(Kind::File))),
            Err(_) => Err(Errno::NOENT),
        }
    }
    fn forget(&self, _: Ino) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }
    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)> {
        (ino.0 > 2).then(|| (Ino::ROOT, ino.0.to_string().into()))
    }
    fn attr(&self, ino: Ino) -> Result<Attr> {
        Ok(attr(if ino == Ino::ROOT {
            Kind::Dir
        } else {
            Kind::File
        }))
    }
    fn list(&self, _: Ino) -> Result<Listing> {
        let mut listing = Listing::default();
        listing.push(OsStr::new("file"), Kind::File, Ino(2));
        Ok(listing)
    }
    fn read(&self, _: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let start = usize::try_from(offset).map_or(CONTENT.len(), |o| o.min(CONTENT.len()));
        let rest = &CONTENT[start..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
    fn sync(&self, _: Ino, _: bool) -> Result<()> {
        // ENOSYS must not teach the kernel never to ask again.
        Err(Errno::NOSYS)
    }
    fn seek(&self, _: Ino, _: u64, _: bool) -> Result<u64> {
        Err(Errno::NXIO)
    }
    fn space(&self) -> Result<Space> {
        Ok(Space::default())
    }
}

fn start(layer: &Arc<Still>, path: &Path, options: &Options) -> Session {
    let layer: Arc<dyn Layer> = Arc::clone(layer) as Arc<dyn Layer>;
    Session::start(layer, path, options).expect("mounts (needs root and /dev/fuse)")
}

fn try_start(path: &Path) -> std::result::Result<Session, MountError> {
    Session::start(Arc::new(Still::default()), path, &Options::default())
}

fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("readable");
    table.contains(&format!(" {} ", path.display()))
}

#[test]
fn what_was_read_once_is_read_from_the_kernel() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let layer = Arc::new(Still::default());
    let session = start(&layer, place.path(), &Options::default());
    for _ in 0..10 {
        let file = place.path().join("file");
        assert_eq!(std::fs::read(&file).expect("reads"), CONTENT);
        let time = std::fs::metadata(&file)
            .expect("stat")
            .modified()
            .expect("has a time");
        let before = std::time::UNIX_EPOCH
            .duration_since(time)
            .expect("before 1970");
        assert_eq!(before, std::time::Duration::new(0, 999_999_993));
        assert!(std::fs::metadata(place.path().join("none")).is_err());
    }
    assert_eq!(layer.reads.load(Ordering::Relaxed), 1);
    assert_eq!(std::fs::read_dir(place.path()).expect("lists").count(), 1);
    session.unmount(PATIENCE).expect("unmounts");
    assert!(session.has_ended() && !is_mounted(place.path()));
    session
        .unmount(PATIENCE)
        .expect("is content with what is done");
}

#[test]
fn a_missing_function_is_asked_for_again() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let layer = Arc::new(Still::default());
    let _session = start(&layer, place.path(), &Options::default());
    for _ in 0..2 {
        let file = std::fs::File::open(place.path().join("file")).expect("opens");
        let error = file.sync_all().expect_err("the layer refuses");
        assert_eq!(error.raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
    }
}

#[test]
fn a_mount_in_use_is_busy_and_dropping_it_lets_the_user_finish() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let layer = Arc::new(Still::default());
    let session = start(&layer, place.path(), &Options::default());
    let file = std::fs::File::open(place.path().join("file")).expect("opens");
    assert!(matches!(
        session.unmount(PATIENCE),
        Err(MountError::Busy { .. })
    ));
    assert!(is_mounted(place.path()));
    drop(session);
    assert!(!is_mounted(place.path()));
    let mut buffer = [0; 7];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, 0).expect("still reads");
    assert_eq!(buffer, CONTENT);
}

#[test]
fn a_mount_over_ours_is_left_alone() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let session = start(&Arc::default(), place.path(), &Options::default());
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", place.path(), c"tmpfs", flags, None).expect("mounts");
    let over = session.unmount(PATIENCE);
    let flags = rustix::mount::UnmountFlags::DETACH;
    rustix::mount::unmount(place.path(), flags).expect("unmounts");
    assert!(matches!(over, Err(MountError::Busy { .. })));
    session.unmount(PATIENCE).expect("unmounts");
}

#[test]
fn strange_mount_points_are_refused_with_advice() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("file");
    std::fs::write(&file, b"").expect("writes");
    assert!(matches!(
        try_start(&file),
        Err(MountError::NotDirectory { .. })
    ));
    let below = file.join("below");
    assert!(matches!(
        try_start(&below),
        Err(MountError::NotDirectory { .. })
    ));
    let none = place.path().join("none");
    assert!(matches!(try_start(&none), Err(MountError::Missing { .. })));
    let mountpoint = place.path().join("with a space");
    std::fs::create_dir(&mountpoint).expect("makes");
    let session = try_start(&mountpoint).expect("mounts");
    assert!(matches!(
        try_start(&mountpoint),
        Err(MountError::AlreadyMounted { .. })
    ));
    assert!(
        !Session::clear_stale(&mountpoint).expect("looks"),
        "it is alive"
    );
    assert_eq!(std::fs::read_dir(&mountpoint).expect("lists").count(), 1);
    session.unmount(PATIENCE).expect("unmounts");
}

#[test]
fn the_mount_of_a_dead_process_is_named_and_cleared() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let session = start(&Arc::default(), place.path(), &Options::default());
    assert!(std::fs::metadata(place.path().join("file")).is_ok());
    // Aborting the connection is what the death of the process does to it.
    let device = rustix::fs::stat(place.path()).expect("stat").st_dev;
    let connection = format!("/sys/fs/fuse/connections/{}", rustix::fs::minor(device));
    let _control = Control::mount();
    std::fs::write(format!("{connection}/abort"), b"1").expect("aborts");
    session.wait().ok();
    assert!(matches!(
        try_start(place.path()),
        Err(MountError::Stale { .. })
    ));
    assert!(Session::clear_stale(place.path()).expect("clears"));
    assert!(!is_mounted(place.path()));
    assert!(
        !Session::clear_stale(place.path()).expect("looks"),
        "there is none now"
    );
    try_start(place.path())
        .expect("mounts")
        .unmount(PATIENCE)
        .expect("unmounts");
}

/// The file system with the `abort` files, mounted while this lives unless it was there before.
struct Control(bool);

impl Control {
    const PATH: &str = "/sys/fs/fuse/connections";

    fn mount() -> Control {
        let flags = rustix::mount::MountFlags::empty();
        let mounted = rustix::mount::mount("fusectl", Control::PATH, "fusectl", flags, None);
        Control(mounted.is_ok())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.0 {
            let flags = rustix::mount::UnmountFlags::DETACH;
            let _ = rustix::mount::unmount(Control::PATH, flags);
        }
    }
}

#[test]
fn the_kernel_holds_no_more_inodes_than_the_limit() {
    const LIMIT: usize = 1000;
    let place = tempfile::tempdir().expect("a temporary directory");
    let layer = Arc::new(Still::default());
    let options = Options {
        inode_limit: LIMIT,
        ..Options::default()
    };
    let session = start(&layer, place.path(), &options);
    let open = std::fs::File::open(place.path().join("3")).expect("opens");
    for number in 3..10_000 {
        let meta = std::fs::metadata(place.path().join(number.to_string())).expect("stat");
        assert!(!meta.file_type().is_fifo());
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while session.inodes() > LIMIT {
        assert!(
            std::time::Instant::now() < deadline,
            "{} inodes",
            session.inodes()
        );
        std::thread::yield_now();
    }
    assert!(layer.forgotten.load(Ordering::Relaxed) >= 10_000 - 3 - LIMIT);
    let mut buffer = [0; 7];
    std::os::unix::fs::FileExt::read_exact_at(&open, &mut buffer, 0).expect("still reads");
}
