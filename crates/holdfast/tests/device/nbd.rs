//! `holdfast volume` and its block devices by NBD.

use crate::processes::{Home, Serving, ends_with, tool};
use std::path::Path;
use std::process::{Command, Stdio};

impl Home {
    /// A new volume of this many MiB.
    fn volume(&self, name: &str, mib: u64) -> String {
        let path = self.path(name);
        let bytes = format!("{mib}M");
        let words = ["volume", "create", &path, "--file-bytes", &bytes];
        ends_with(0, &[&words[..], &["--segment-bytes", "256K"]].concat());
        path
    }
}

/// Serves a volume at a place.
fn serve(volume: &str, place: [&str; 2]) -> Serving {
    Serving::start(&[&["volume", "serve", volume][..], &place].concat())
}

impl Serving {
    /// Where clients find the block device of this object.
    fn uri(&self, object: u64) -> String {
        match self.file.split_once("?") {
            Some((head, socket)) => format!("{head}{object}?{socket}"),
            None => format!("{}/{object}", self.file),
        }
    }
}

fn random_file(path: &str, kib: usize) {
    let mut bytes = vec![0; kib << 10];
    env::Rng::from_kernel()
        .expect("random numbers")
        .fill(&mut bytes);
    std::fs::write(path, bytes).expect("a new file");
}

#[test]
fn a_volume_is_made_looked_at_and_checked() {
    let home = Home::new();
    let path = home.volume("one", 64);
    let shown = ends_with(0, &["volume", "stat", &path]);
    assert!(shown.contains("used      0 B of"), "{shown}");
    let json = ends_with(0, &["volume", "stat", &path, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["mapped_blocks"], 0);
    assert_eq!(json["objects"][0]["object"], 1);
    ends_with(0, &["volume", "clean", &path]);
    let checked = ends_with(0, &["volume", "check", &path]);
    assert!(
        checked.contains("all are as they were written"),
        "{checked}"
    );
    let inspected = ends_with(0, &["inspect", &path]);
    assert!(inspected.contains("disk of a volume, valid"), "{inspected}");
}

#[test]
fn what_cannot_be_a_volume_is_refused_with_advice() {
    let home = Home::new();
    let missing = home.path("missing");
    ends_with(40, &["volume", "stat", &missing]);
    ends_with(40, &["volume", "create", &missing]);
    let letter = home.path("letter");
    std::fs::write(&letter, vec![b'x'; 64 << 20]).expect("a new file");
    let said = ends_with(42, &["volume", "create", &letter]);
    assert!(said.contains("has content"), "{said}");
    ends_with(40, &["volume", "check", &letter]);
    let small = home.path("small");
    let said = ends_with(42, &["volume", "create", &small, "--file-bytes", "1M"]);
    assert!(said.contains("too few"), "{said}");
    // What was refused leaves nothing behind.
    assert!(!std::fs::exists(&small).unwrap());
    ends_with(40, &["volume", "create", &small, "--segment-bytes", "5"]);
    let words = ["volume", "create", &small, "--file-bytes", "160M"];
    for wrong in ["5", "0"] {
        ends_with(2, &[&words[..], &["--segment-bytes", wrong]].concat());
    }
    let said = ends_with(2, &[&words[..], &[&small]].concat());
    assert!(said.contains("is named twice"), "{said}");
    for (bytes, code) in [("0", 2), ("5000", 2), ("1T", 42)] {
        let said = ends_with(code, &[&words[..], &["--device-bytes", bytes]].concat());
        assert!(said.contains("a block device of"), "{said}");
    }
    assert!(!std::fs::exists(&small).unwrap());
    ends_with(2, &["volume", "create"]);
    ends_with(2, &["volume", "create", &small, "--segment-bytes", "many"]);
    ends_with(2, &["volume", "serve", &small]);
    let volume = home.volume("volume", 64);
    let said = ends_with(42, &["volume", "create", &volume]);
    assert!(said.contains("is part of volume"), "{said}");
    ends_with(40, &["volume", "check", &volume, &volume]);
    let json = ends_with(40, &["volume", "stat", &missing, "--json"]);
    assert!(json.contains("\"exit\":\"not_a_volume\""), "{json}");
    let words = [
        "volume",
        "create",
        &letter,
        "--overwrite",
        "--segment-bytes",
        "256K",
    ];
    ends_with(0, &words);
    ends_with(0, &["volume", "check", &letter]);
}

#[test]
fn two_disks_are_one_volume_in_one_order() {
    let home = Home::new();
    let (a, b) = (home.path("a"), home.path("b"));
    let more = ["--file-bytes", "32M", "--segment-bytes", "256K"];
    ends_with(0, &[&["volume", "create", &a, &b][..], &more].concat());
    ends_with(0, &["volume", "check", &a, &b]);
    ends_with(40, &["volume", "check", &b, &a]);
    ends_with(40, &["volume", "check", &a]);
}

#[test]
fn an_image_goes_in_and_comes_out_the_same_by_both_kinds_of_socket() {
    let home = Home::new();
    let path = home.volume("disk", 64);
    let (image, back) = (home.path("image"), home.path("back"));
    random_file(&image, 8 << 10);
    let socket = home.path("socket");
    for place in [["--socket", socket.as_str()], ["--listen", "127.0.0.1:0"]] {
        let server = serve(&path, place);
        // Somebody else may not have it meanwhile.
        ends_with(41, &["volume", "check", &path]);
        let device = server.uri(1);
        tool("nbdcopy", &["--connections=4", "--flush", &image, &device]);
        tool("nbdcopy", &["--connections=4", &device, &back]);
        let (put, got) = (
            std::fs::read(&image).unwrap(),
            std::fs::read(&back).unwrap(),
        );
        assert!(got.len() > put.len() && got.starts_with(&put));
        assert!(got[put.len()..].iter().all(|byte| *byte == 0));
        let info = tool("nbdinfo", &[&device]);
        for able in [
            "can_flush: true",
            "can_fua: true",
            "can_trim: true",
            "can_zero: true",
        ] {
            assert!(info.contains(able), "{info}");
        }
        assert!(info.contains("can_multi_conn: true"), "{info}");
        let map = tool("nbdinfo", &["--map", &device]);
        assert!(map.contains("data") && map.contains("hole"), "{map}");
        let listed = tool("nbdinfo", &["--list", &server.file]);
        assert!(listed.contains("export=\"1\""), "{listed}");
        server.stop();
        ends_with(0, &["volume", "check", &path]);
    }
}

#[test]
fn patterns_of_qemu_io_hold_through_trim_zeros_and_a_kill() {
    let home = Home::new();
    let path = home.volume("disk", 64);
    let socket = home.path("socket");
    let server = serve(&path, ["--socket", &socket]);
    let io = |device: &str, commands: &[&str]| {
        let mut words = vec!["-f", "raw", device];
        for command in commands {
            words.extend(["-c", *command]);
        }
        tool("qemu-io", &words)
    };
    let device = server.uri(1);
    io(
        &device,
        &[
            "write -P 1 0 1M",
            "write -P 2 512 1000",
            "write -f -P 3 300k 64k",
            "write -z 500k 100k",
            "discard 800k 64k",
            "write -z -u 900k 4k",
            "flush",
            "write -f -P 4 1500001 77777",
        ],
    );
    let expected = [
        "read -P 1 0 512",
        "read -P 2 512 1000",
        "read -P 1 1512 200000",
        "read -P 3 300k 64k",
        "read -P 0 500k 100k",
        "read -P 0 800k 64k",
        "read -P 0 900k 4k",
        "read -P 1 904k 100k",
        "read -P 4 1500001 77777",
        "read -P 0 1577778 1000",
    ];
    let verified = io(&device, &expected);
    assert!(
        !verified.contains("Pattern verification failed"),
        "{verified}"
    );
    server.kill();
    // The dead one's socket is in the way, and its writes are there.
    let server = serve(&path, ["--socket", &socket]);
    let verified = io(&server.uri(1), &expected);
    assert!(
        !verified.contains("Pattern verification failed"),
        "{verified}"
    );
    let wrong = Command::new("qemu-io")
        .args(["-f", "raw", &server.uri(7), "-c", "read 0 512"])
        .output()
        .expect("qemu-io runs");
    assert!(!wrong.status.success(), "there is no object 7");
    server.stop();
    ends_with(0, &["volume", "check", &path]);
}

#[test]
fn what_qemu_img_bench_has_written_and_flushed_is_there_after_a_kill() {
    let home = Home::new();
    let path = home.volume("disk", 64);
    let socket = home.path("socket");
    let server = serve(&path, ["--socket", &socket]);
    // Eight at once, of three blocks that begin where no block does; the last of all is a flush.
    let (count, bytes, step) = (200, 12_288, 100_352);
    let load = format!(
        "bench -f raw -t none -w --pattern=90 -d 8 --flush-interval=8 -c {count} -s {bytes} -S {step} {}",
        server.uri(1)
    );
    let said = tool("qemu-img", &load.split(' ').collect::<Vec<_>>());
    assert!(said.contains("Run completed in"), "{said}");
    server.kill();
    ends_with(0, &["volume", "check", &path]);
    let server = serve(&path, ["--socket", &socket]);
    let reads: Vec<String> = (0..count)
        .map(|request| format!("read -P 90 {} {bytes}", request * step))
        .chain([format!("read -P 0 {bytes} {}", step - bytes)])
        .collect();
    let device = server.uri(1);
    let mut words = vec!["-f", "raw", &device];
    words.extend(reads.iter().flat_map(|read| ["-c", read.as_str()]));
    let verified = tool("qemu-io", &words);
    assert!(!verified.contains("failed"), "{verified}");
    server.stop();
}

#[test]
fn a_file_system_image_is_sound_after_its_server_was_killed_while_it_was_copied() {
    let home = Home::new();
    let path = home.volume("disk", 96);
    let socket = home.path("socket");
    let (image, back) = (home.path("image"), home.path("back"));
    let tree = home.directory("tree");
    for number in 0..40 {
        random_file(&format!("{tree}/{number}"), 100);
    }
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(32 << 20))
        .expect("a new file");
    tool("mke2fs", &["-q", "-t", "ext4", "-d", &tree, &image]);
    let server = serve(&path, ["--socket", &socket]);
    tool(
        "qemu-img",
        &[
            "convert",
            "-n",
            "-f",
            "raw",
            "-O",
            "raw",
            &image,
            &server.uri(1),
        ],
    );
    // Another copy is under way when it dies: of the same content, so all states are one.
    let mut copy = Command::new("qemu-img")
        .args([
            "convert",
            "-n",
            "-f",
            "raw",
            "-O",
            "raw",
            &image,
            &server.uri(1),
        ])
        .stderr(Stdio::null())
        .spawn()
        .expect("qemu-img runs");
    server.kill();
    copy.wait().expect("it ends");
    ends_with(0, &["volume", "check", &path]);
    let server = serve(&path, ["--socket", &socket]);
    tool("nbdcopy", &[&server.uri(1), &back]);
    server.stop();
    let bytes = std::fs::read(&back).expect("the copy");
    std::fs::write(&back, &bytes[..32 << 20]).expect("written");
    tool("e2fsck", &["-fn", &back]);
    assert_eq!(
        std::fs::read(&image).unwrap(),
        std::fs::read(Path::new(&back)).unwrap()
    );
}

#[test]
fn a_volume_with_a_damaged_log_goes_back_to_before_the_damage_when_that_is_asked_for() {
    let home = Home::new();
    let path = home.volume("disk", 64);
    let rescue = ["volume", "rescue", &path];
    let said = ends_with(0, &rescue);
    assert!(said.contains("nothing is to be given up"), "{said}");
    let socket = home.path("socket");
    let server = serve(&path, ["--socket", &socket]);
    let io = |device: &str, commands: &[String]| {
        let commands = commands.iter().flat_map(|command| ["-c", command.as_str()]);
        let words: Vec<&str> = ["-f", "raw", device].into_iter().chain(commands).collect();
        tool("qemu-io", &words)
    };
    let writes = (1..=6).flat_map(|value| {
        let write = format!("write -P {value} {}k 4k", value * 4);
        [write, "flush".to_owned()]
    });
    io(&server.uri(1), &writes.collect::<Vec<_>>());
    server.kill();
    // The content of the fourth write compresses, so it lies in the header of its flight. The first entry
    // there says that it is block 4 (docs/formats/volume.md).
    let mut bytes = std::fs::read(&path).unwrap();
    let is_header = |block: &[u8]| {
        let entry = &block[64 + 40..][..24];
        block.starts_with(b"HOLDFAST")
            && (block[10], entry[0]) == (7, 8)
            && entry[16..] == 4_u64.to_le_bytes()
    };
    let header = bytes.chunks(4096).position(is_header);
    bytes[header.expect("it is in the log") * 4096 + 80] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let said = ends_with(43, &["volume", "stat", &path]);
    assert!(said.contains("holdfast volume rescue"), "{said}");
    ends_with(43, &["volume", "check", &path]);
    let said = ends_with(43, &rescue);
    assert!(said.contains("would be given up"), "{said}");
    ends_with(43, &["volume", "stat", &path]);
    let said = ends_with(0, &[&rescue[..], &["--give-up", "--json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["damaged"], &said["given_up"]),
        (&true.into(), &true.into())
    );
    ends_with(0, &["volume", "check", &path]);
    let server = serve(&path, ["--socket", &socket]);
    let reads = (1..=6).map(|value| {
        let found = if value < 4 { value } else { 0 };
        format!("read -P {found} {}k 4k", value * 4)
    });
    let verified = io(&server.uri(1), &reads.collect::<Vec<_>>());
    assert!(
        !verified.contains("Pattern verification failed"),
        "{verified}"
    );
    server.stop();
}
