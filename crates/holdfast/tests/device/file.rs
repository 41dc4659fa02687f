//! `holdfast volume serve --file`: a block device as one file, and at a loop device.

use crate::processes::{Home, Mounted, Serving, ends_with, tool};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

fn volume(home: &Home, device_mib: u64) -> String {
    let path = home.path("volume");
    let bytes = format!("{device_mib}M");
    let words = [
        "volume",
        "create",
        &path,
        "--file-bytes",
        "160M",
        "--segment-bytes",
        "256K",
        "--device-bytes",
        &bytes,
    ];
    ends_with(0, &words);
    path
}

#[test]
fn the_file_is_the_device_also_after_a_start() {
    let home = Home::new();
    let volume = volume(&home, 64);
    let directory = home.directory("shown");
    let words = ["volume", "serve", &volume, "--file", &directory];
    let serving = Serving::start(&words);
    let open = || {
        File::options()
            .read(true)
            .write(true)
            .open(&serving.file)
            .expect("it can be opened")
    };
    let file = open();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    file.write_all_at(&[7; 100_000], 5000).unwrap();
    file.write_all_at(&[8; 100], (64 << 20) - 100).unwrap();
    file.sync_all().unwrap();
    let past = file.write_all_at(&[8; 101], (64 << 20) - 100).unwrap_err();
    assert_eq!(past.raw_os_error(), Some(libc::ENOSPC));
    assert!(file.set_len(4096).is_err());
    assert!(fs::write(format!("{directory}/other"), "x").is_err());
    let punch = ["-p", "-o", "8192", "-l", "20000", &serving.file];
    tool("fallocate", &punch);
    drop(file);
    serving.stop();
    let serving = Serving::start(&words);
    let file = File::open(&serving.file).unwrap();
    let mut bytes = vec![0; 110_000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let expected = |at: usize| match at {
        5000..8192 | 28_192..105_000 => 7,
        _ => 0,
    };
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == expected(at))
    );
    drop(file);
    serving.stop();
    ends_with(0, &["volume", "check", &volume]);
}

#[test]
fn a_file_below_a_loop_device_does_not_become_a_volume() {
    let home = Home::new();
    let (image, point) = (home.path("image"), home.directory("point"));
    File::create(&image).unwrap().set_len(160 << 20).unwrap();
    tool("mkfs.ext4", &["-q", &image]);
    let mounted = Mounted::new(&["-o", "loop", &image], &point);
    fs::write(mounted.at("file"), "x").unwrap();
    let said = ends_with(41, &["volume", "create", &image, "--overwrite"]);
    assert!(said.contains("is shown by /dev/loop"), "{said}");
    mounted.unmount();
    tool("e2fsck", &["-fn", &image]);
}

#[test]
fn a_file_below_a_loop_device_that_does_not_answer_holds_up_nobody() {
    let home = Home::new();
    let volume = volume(&home, 64);
    let directory = home.directory("shown");
    let serving = Serving::start(&["volume", "serve", &volume, "--file", &directory, "--loop"]);
    let server = serving.child.id().to_string();
    tool("kill", &["-STOP", &server]);
    let other = home.path("other");
    let create = [env!("CARGO_BIN_EXE_holdfast"), "volume", "create", &other];
    let words = [&["120"][..], &create[..], &["--file-bytes", "160M"][..]].concat();
    // After 120 s it is ended, and has failed.
    tool("timeout", &words);
    tool("kill", &["-CONT", &server]);
    serving.stop();
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let home = Home::new();
    let volume = volume(&home, 64);
    let directory = home.directory("shown");
    let socket = home.path("socket");
    ends_with(
        2,
        &["volume", "serve", &volume, "--socket", &socket, "--loop"],
    );
    ends_with(
        2,
        &[
            "volume",
            "serve",
            &volume,
            "--file",
            &directory,
            "--sector-bytes",
            "1024",
        ],
    );
    fs::write(home.path("shown/letter"), "x").unwrap();
    let said = ends_with(22, &["volume", "serve", &volume, "--file", &directory]);
    assert!(said.contains("is not empty"), "{said}");
    ends_with(0, &["volume", "check", &volume]);
}

#[test]
fn a_file_system_on_a_loop_device_keeps_its_files_and_its_server() {
    let home = Home::new();
    let volume = volume(&home, 64);
    let (directory, point) = (home.directory("shown"), home.directory("point"));
    let words = ["volume", "serve", &volume, "--file", &directory, "--loop"];
    let mut serving = Serving::start(&words);
    tool("mkfs.ext4", &["-q", serving.device()]);
    let mounted = Mounted::new(&[serving.device()], &point);
    fs::write(mounted.at("before"), vec![1; 3 << 20]).unwrap();
    // It goes on for who has it mounted, and ends with the unmount.
    serving.terminate();
    serving.says("is in use (mounted on ");
    fs::write(mounted.at("after"), vec![2; 3 << 20]).unwrap();
    assert_eq!(fs::read(mounted.at("before")).unwrap(), vec![1; 3 << 20]);
    mounted.unmount();
    serving.wait();
    ends_with(0, &["volume", "check", &volume]);

    let serving = Serving::start(&words);
    tool("e2fsck", &["-fn", serving.device()]);
    let mounted = Mounted::new(&[serving.device()], &point);
    assert_eq!(fs::read(mounted.at("after")).unwrap(), vec![2; 3 << 20]);
    // Room that is trimmed is room of the volume.
    let used = |volume: &str| {
        let shown = ends_with(0, &["volume", "stat", volume, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown["mapped_blocks"].as_u64().unwrap()
    };
    fs::remove_file(mounted.at("before")).unwrap();
    fs::remove_file(mounted.at("after")).unwrap();
    tool("fstrim", &[&point]);
    mounted.unmount();
    let device = serving.device().to_owned();
    serving.stop();
    let left = used(&volume);
    // The journal and the tables; the files had 1536.
    assert!(left < 2000, "{left} blocks of an empty file system");
    let loops = tool(
        "losetup",
        &["--list", "--noheadings", "--output", "NAME,BACK-FILE"],
    );
    let mine = format!("{directory}/disk");
    assert!(!loops.contains(&mine), "{device}: {loops}");
}
