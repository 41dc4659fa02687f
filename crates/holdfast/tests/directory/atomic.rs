//! The commands for atomic writes, as a program gives them.

use crate::Home;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Numbers of include/uapi/linux/f2fs.h.
const START: libc::Ioctl = 0xf501;
const REPLACE: libc::Ioctl = 0xf519;
const COMMIT: libc::Ioctl = 0xf502;
const ABORT: libc::Ioctl = 0xf505;
const FEATURES: libc::Ioctl = 0x8004_f50c;

#[expect(unsafe_code, reason = "ioctl(2) has no other form")]
fn say(file: &File, number: libc::Ioctl) -> std::io::Result<u32> {
    let mut output = 0_u32;
    // SAFETY: the descriptor is open while `file` is borrowed, and the one command with an
    // argument writes four bytes to it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, &raw mut output) };
    match result {
        0 => Ok(output),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn open(path: &std::path::Path) -> File {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

fn read(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_batch_is_whole_after_a_commit_and_gone_after_all_else() {
    let home = Home::new(64);
    let mount = home.mount();
    let path = mount.at("data");
    let file = open(&path);
    assert_eq!(say(&file, FEATURES).unwrap() & 4, 4);
    file.write_all_at(&[1; 20_000], 0).unwrap();
    let reader = File::open(&path).unwrap();

    say(&file, START).unwrap();
    file.write_all_at(&[2; 8192], 4096).unwrap();
    file.write_all_at(&[2; 8192], 100_000).unwrap();
    assert_eq!(read(&reader, 20_000)[4096..12_288], [2; 8192]);
    // Pages that the kernel has are dropped, and so is the length.
    say(&file, ABORT).unwrap();
    assert_eq!(read(&reader, 20_000), [1; 20_000]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 20_000);

    say(&file, START).unwrap();
    file.write_all_at(&[3; 8192], 4096).unwrap();
    file.write_all_at(&[3; 1], 30_000).unwrap();
    say(&file, COMMIT).unwrap();
    let committed = read(&reader, 30_001);
    assert_eq!(
        (committed[4096], committed[29_999], committed[30_000]),
        (3, 0, 3)
    );

    // All that the file has, replaced; first without a commit.
    for ends in [ABORT, COMMIT] {
        say(&file, REPLACE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        file.write_all_at(&[6; 9000], 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [6; 9000]);
        say(&file, ends).unwrap();
        if ends == ABORT {
            assert_eq!(fs::read(&path).unwrap(), committed);
        }
    }
    assert_eq!(fs::read(&path).unwrap(), [6; 9000]);
    file.write_all_at(&committed, 0).unwrap();

    // A close without commit, of a second descriptor of the program.
    let second = open(&path);
    say(&second, START).unwrap();
    second.write_all_at(&[4; 30_001], 0).unwrap();
    assert_eq!(read(&reader, 30_001), [4; 30_001]);
    drop(second);
    assert_eq!(read(&reader, 30_001), committed);

    // A kill of what serves it.
    say(&file, START).unwrap();
    file.write_all_at(&[5; 30_001], 0).unwrap();
    mount.kill();
    drop((file, reader));
    let mount = home.mount();
    assert_eq!(fs::read(mount.at("data")).unwrap(), committed);
    let refused = say(&File::open(mount.at("data")).unwrap(), START).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    let unknown = say(&open(&mount.at("data")), 0xf503).unwrap_err();
    assert_eq!(unknown.raw_os_error(), Some(libc::ENOTTY));
    mount.stop();
    home.check();
}

#[test]
fn the_end_of_a_program_drops_what_it_has_not_committed() {
    let home = Home::new(64);
    let mount = home.mount();
    let path = mount.at("data");
    fs::write(&path, [1; 8192]).unwrap();
    // perl has ioctl(2); it ends without a commit.
    let program = "open(F, '+<', $ARGV[0]) or die; ioctl(F, 0xf501, 0) or die; \
                   syswrite(F, 'x' x 8192) == 8192 or die; kill 9, $$";
    let status = std::process::Command::new("perl")
        .args(["-e", program])
        .arg(&path)
        .status();
    assert!(!status.unwrap().success());
    assert_eq!(fs::read(&path).unwrap(), [1; 8192]);
    mount.stop();
    home.check();
}

#[test]
fn a_program_that_is_started_meanwhile_does_not_end_the_batch() {
    let home = Home::new(64);
    let mount = home.mount();
    let file = open(&mount.at("data"));
    say(&file, START).unwrap();
    file.write_all_at(&[7; 4096], 0).unwrap();
    // Its exec closes what it has inherited of our descriptors.
    assert!(
        std::process::Command::new("true")
            .status()
            .unwrap()
            .success()
    );
    say(&file, COMMIT).unwrap();
    drop(file);
    assert_eq!(fs::read(mount.at("data")).unwrap(), [7; 4096]);
    mount.stop();
}
