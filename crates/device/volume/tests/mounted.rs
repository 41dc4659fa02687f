//! What reaches a tree through a real mount. Needs root and /dev/fuse.

extern crate holdfast_volume as volume;

use env::{Dir, Open};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use volume::directory::Tree;
use volume::{Options, Volume, VolumeId};

/// O_DIRECT of asm-generic/fcntl.h, which x86 and most others share.
const DIRECT: i32 = 0o40000;

struct Mounted {
    // Declared first, so dropped first: the mount goes before its directory.
    session: mount::Session,
    tree: Arc<Tree>,
    _home: tempfile::TempDir,
}

fn mounted() -> Mounted {
    let home = tempfile::tempdir().unwrap();
    let point = home.path().join("mount");
    std::fs::create_dir(&point).unwrap();
    let dir = env::real::RealDir::open(home.path()).unwrap();
    let disk = dir.open("volume", Open::Create(64 << 20)).unwrap();
    let options = Options {
        segment_blocks: 64,
        ..Options::default()
    };
    let volume = Volume::create(vec![disk], VolumeId(7), options).unwrap();
    let tree = Arc::new(Tree::create(volume).unwrap());
    let options = mount::Options::default();
    let session = mount::Session::start(tree.clone(), &point, &options).unwrap();
    Mounted {
        session,
        tree,
        _home: home,
    }
}

#[test]
fn each_write_of_a_program_is_one_group() {
    let mounted = mounted();
    let groups = || mounted.tree.volume().stats().counters.groups;
    let path = mounted.session.mountpoint().join("file");
    std::fs::write(&path, vec![0; 4 << 20]).unwrap();
    // The end of this buffer is where a multiple of 4096 begins in memory, for direct I/O.
    let room = vec![7; (1 << 20) + 4096];
    let skip = room.as_ptr().align_offset(4096);
    let data = &room[skip..skip + (1 << 20)];
    for flags in [0, DIRECT] {
        let file = File::options()
            .write(true)
            .custom_flags(flags)
            .open(&path)
            .unwrap();
        for length in [4096, 8192, 16_384, 65_536, 262_144, 1 << 20] {
            for offset in [0, 4096, 3 * 16_384] {
                let before = groups();
                assert_eq!(file.write_at(&data[..length], offset).unwrap(), length);
                assert_eq!(
                    groups() - before,
                    1,
                    "{length} bytes at {offset}, flags {flags:o}"
                );
            }
        }
    }
    let file = File::options().write(true).open(&path).unwrap();
    // The end may be anywhere, the start not: the kernel cuts there where it has not the page.
    for (offset, length) in [(0, 1), (8192, 5000), (4096, 100_001), (0, (1 << 20) - 1)] {
        let before = groups();
        assert_eq!(file.write_at(&data[..length], offset).unwrap(), length);
        assert_eq!(groups() - before, 1, "{length} bytes at {offset}");
    }
    drop(file);
    assert!(
        mounted
            .session
            .unmount(std::time::Duration::from_secs(30))
            .unwrap()
    );
}

#[test]
fn the_room_of_a_removed_file_comes_back_when_its_last_user_closes_it() {
    let mounted = mounted();
    let used = || mounted.tree.volume().stats().mapped_blocks;
    let before = used();
    let path = mounted.session.mountpoint().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let reader = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut content = vec![0; 1 << 20];
    reader.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(content, vec![1; 1 << 20]);
    assert!(used() > before + 200);
    drop(reader);
    // The kernel tells of the last close beside the program.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while used() > before + 2 && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(used() <= before + 2, "{} blocks, {before} before", used());
    drop(mounted);
}
