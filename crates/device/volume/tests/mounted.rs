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
        // It may have been kept back for more.
        file.sync_data().unwrap();
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

/// Pages of 8 KiB from memory that another process has filled, none of it aligned: the kernel cuts a
/// write where it has to fetch the memory in the middle of a page.
const SHARED_MEMORY: &str = "
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.pwrite.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
memory = mmap.mmap(-1, 1 << 20)
memory[:] = b'x' * (1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 128
file = os.open(sys.argv[1], os.O_RDWR)
if os.fork() == 0:
    for page in range(100):
        if libc.pwrite(file, start + page * 8192, 8192, page * 8192) != 8192:
            os._exit(1)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
";

#[test]
fn a_write_from_memory_that_has_to_be_fetched_is_one_group() {
    let mounted = mounted();
    let groups = || mounted.tree.volume().stats().counters.groups;
    let path = mounted.session.mountpoint().join("file");
    std::fs::write(&path, vec![1; 2 << 20]).unwrap();
    let before = groups();
    let program = ["-c", SHARED_MEMORY];
    let status = std::process::Command::new("python3")
        .args(program)
        .arg(&path)
        .status();
    assert!(status.unwrap().success());
    assert_eq!(groups() - before, 100);
    let joined = mounted.tree.joined_writes();
    println!("{joined} of 100 writes came in pieces");
    assert_eq!(
        std::fs::read(&path).unwrap()[..819_200],
        vec![b'x'; 819_200]
    );
    drop(mounted);
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
