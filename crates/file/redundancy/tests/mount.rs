//! The FUSE edge over one local store: what the two do together, without replication between.
//! Needs root, /dev/fuse, python3, findmnt.

#[path = "passthrough/layer.rs"]
mod layer;

use holdfast_redundancy::store::local::LocalStore;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// A store, a mount point, and the mount of one on the other.
struct Fixture {
    // Declared first, so dropped first: the mount goes before its directories.
    session: mount::Session,
    layer: Arc<layer::Passthrough>,
    place: tempfile::TempDir,
}

fn fixture() -> anyhow::Result<Fixture> {
    let place = tempfile::tempdir()?;
    // Other users must be able to reach the mount.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open)?;
    let (store, mountpoint) = (place.path().join("store"), place.path().join("mount"));
    std::fs::create_dir(&store)?;
    std::fs::create_dir(&mountpoint)?;
    LocalStore::create_layout(&store)?;
    let layer = Arc::new(layer::Passthrough::new(LocalStore::open(&store)?)?);
    let shared: Arc<dyn mount::Layer> = Arc::clone(&layer) as Arc<dyn mount::Layer>;
    let session = mount::Session::start(shared, &mountpoint, &mount::Options::default())?;
    Ok(Fixture {
        session,
        layer,
        place,
    })
}

fn posix(tool: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/posix");
    PathBuf::from(root).join(tool)
}

#[test]
fn the_mount_behaves_like_a_local_file_system() -> anyhow::Result<()> {
    let f = fixture()?;
    let output = Command::new(posix("semantics.py"))
        .arg(f.session.mountpoint())
        .arg("--below")
        .arg(f.place.path().join("store/data"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    f.session.unmount(std::time::Duration::from_secs(30))?;
    Ok(())
}

#[test]
fn opens_closes_and_warm_reads_ask_nothing() -> anyhow::Result<()> {
    let f = fixture()?;
    let path = f.session.mountpoint().join("file");
    std::fs::write(&path, [7; 65536])?;
    std::fs::read(&path)?;
    std::fs::metadata(&path)?;
    f.layer.counts.take();
    for _ in 0..10 {
        assert_eq!(std::fs::read(&path)?.len(), 65536);
    }
    assert_eq!(f.layer.counts.take(), []);
    Ok(())
}

#[test]
fn a_write_of_a_megabyte_is_one_request() -> anyhow::Result<()> {
    let f = fixture()?;
    let path = f.session.mountpoint().join("file");
    std::fs::write(&path, b"")?;
    f.layer.counts.take();
    std::fs::write(&path, vec![1; 1 << 20])?;
    let writes = f.layer.counts.take();
    assert!(writes.contains(&("write", 1)), "{writes:?}");
    Ok(())
}

#[test]
fn synchronous_writes_ask_for_a_sync() -> anyhow::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let f = fixture()?;
    let path = f.session.mountpoint().join("file");
    let mode = Mode::from_raw_mode(0o644);
    for flags in [OFlags::DSYNC, OFlags::SYNC] {
        let flags = flags | OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::open(&path, flags, mode)?;
        f.layer.counts.take();
        rustix::io::pwrite(&file, b"durable", 0)?;
        let calls = f.layer.counts.take();
        assert!(calls.contains(&("sync", 1)), "{flags:?}: {calls:?}");
    }
    Ok(())
}

#[test]
fn what_is_removed_is_forgotten() -> anyhow::Result<()> {
    let f = fixture()?;
    let path = f.session.mountpoint().join("dir");
    std::fs::create_dir(&path)?;
    for number in 0..100 {
        std::fs::write(path.join(number.to_string()), b"x")?;
    }
    std::fs::remove_dir_all(&path)?;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while f.layer.known() > 1 || f.session.inodes() > 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "{} known",
            f.layer.known()
        );
        std::thread::yield_now();
    }
    Ok(())
}
