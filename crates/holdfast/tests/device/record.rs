//! `holdfast volume record` and `replay` as a user has them.

use crate::processes::{Home, Mounted, Serving, ends_with, tool};
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const BYTES: u64 = 1 << 20;

/// An image, a copy of it, and a place to show it.
struct Original {
    home: Home,
    image: String,
    base: String,
    trace: String,
    directory: String,
}

impl Original {
    fn new(content: &[u8]) -> Original {
        let home = Home::in_memory();
        let paths = ["image", "base", "trace"].map(|name| home.path(name));
        let [image, base, trace] = paths;
        fs::write(&image, content).unwrap();
        fs::copy(&image, &base).unwrap();
        Original {
            directory: home.directory("shown"),
            home,
            image,
            base,
            trace,
        }
    }

    /// What records it.
    fn record(&self) -> [&str; 6] {
        let (image, directory) = (self.image.as_str(), self.directory.as_str());
        ["volume", "record", image, directory, "--trace", &self.trace]
    }
}

fn open(serving: &Serving) -> File {
    let file = File::options().read(true).write(true).open(&serving.file);
    file.unwrap()
}

#[test]
fn what_was_flushed_is_on_every_image_and_the_rest_as_it_is_asked_for() {
    let original = Original::new(&[5; BYTES as usize]);
    let words = original.record();
    let serving = Serving::start(&words);
    ends_with(41, &words);
    let Original {
        home,
        image,
        base,
        trace,
        directory,
    } = &original;
    let file = open(&serving);
    assert_eq!(file.metadata().unwrap().len(), BYTES);
    // From memory that is there: the kernel cuts a write at what it has to fetch first.
    file.write_all_at(&vec![1; 8192], 4096).unwrap();
    file.sync_all().unwrap();
    fs::write(home.path("shown/mark"), "one is safe\n").unwrap();
    file.write_all_at(&vec![2; 8192], 65_536).unwrap();
    file.write_all_at(&vec![3; 4096], 131_072).unwrap();
    // The program of this name flushes by itself.
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 4096, 4096).unwrap();
    drop(file);
    serving.stop();
    assert_eq!(fs::read(image).unwrap()[4096..8192], [0; 4096]);

    let inspected = ends_with(0, &["inspect", trace]);
    assert!(inspected.contains("trace of a disk, valid"), "{inspected}");
    let listed = ends_with(0, &["volume", "replay", base, trace, "--list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed["writes"], &listed["zeros"]),
        (&3.into(), &1.into())
    );
    assert_eq!(listed["complete"], true);
    let mark = &listed["marks"][0];
    assert_eq!(mark["text"], "one is safe");
    assert!(listed["flushes"][0].as_u64() < mark["event"].as_u64());
    let shown = ends_with(0, &["volume", "replay", base, trace, "--list"]);
    assert!(shown.contains("as the recorder ended it"), "{shown}");

    let replay = |more: &[&str]| {
        let out = home.path("out");
        let words = ["volume", "replay", base, trace, "--image", &out];
        let said = ends_with(0, &[&words, more].concat());
        let bytes = fs::read(&out).unwrap();
        fs::remove_file(&out).unwrap();
        assert_eq!(bytes.len() as u64, BYTES);
        (said, [4096, 8192, 65_536, 131_072].map(|at| bytes[at]))
    };
    assert_eq!(replay(&[]).1, [0, 1, 2, 3]);
    assert_eq!(replay(&["--lose", "none"]).1, [0, 1, 2, 3]);
    assert_eq!(replay(&["--lose", "all"]).1, [1, 1, 5, 5]);
    let at = mark["event"].to_string();
    let (said, found) = replay(&["--until", &at]);
    assert_eq!(found, [1, 1, 5, 5]);
    assert!(
        said.contains(&format!("behind event {at}; of 0 writes")),
        "{said}"
    );
    let (said, _) = replay(&["--lose", "all", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let second = said["writes"][1]["event"].to_string();
    assert_eq!(replay(&["--lose", &second]).1, [0, 1, 2, 5]);
    let mut found: Vec<_> = (0..40)
        .map(|seed| replay(&["--seed", &seed.to_string(), "--sector-bytes", "512"]).1)
        .collect();
    assert!(found.iter().all(|bytes| bytes[1] == 1));
    found.sort_unstable();
    found.dedup();
    assert!(found.len() > 3, "{found:?}");

    let out = home.path("out");
    let replay = ["volume", "replay", base, trace, "--image", &out];
    ends_with(2, &[&replay[..], &["--until", "999"]].concat());
    ends_with(2, &[&replay[..], &["--lose", "1"]].concat());
    ends_with(2, &[&replay[..], &["--lose", "some"]].concat());
    ends_with(2, &["volume", "replay", base, trace]);
    ends_with(30, &["volume", "replay", base, image, "--list"]);
    ends_with(33, &["volume", "replay", image, trace, "--list"]);
    ends_with(40, &["volume", "replay", directory, trace, "--list"]);
    assert!(!fs::exists(&out).unwrap());
    // Neither trace nor image is written over something.
    ends_with(1, &words);
    ends_with(1, &["volume", "replay", base, trace, "--image", image]);
}

#[test]
fn a_trace_of_a_recorder_that_was_killed_holds_what_it_has() {
    let original = Original::new(&[5; BYTES as usize]);
    let serving = Serving::start(&original.record());
    let file = open(&serving);
    file.write_all_at(&[1; 8192], 4096).unwrap();
    serving.kill();
    drop(file);
    let Original {
        home, base, trace, ..
    } = &original;
    tool("umount", &["--lazy", &original.directory]);
    let listed = ends_with(0, &["volume", "replay", base, trace, "--list"]);
    assert!(listed.contains("the recorder was killed there"), "{listed}");
    let out = home.path("out");
    ends_with(0, &["volume", "replay", base, trace, "--image", &out]);
    assert_eq!(fs::read(&out).unwrap()[4096..12_288], [1; 8192]);
    let mut bytes = fs::read(trace).unwrap();
    bytes[4200] ^= 1;
    fs::write(trace, bytes).unwrap();
    let listed = ends_with(0, &["volume", "replay", base, trace, "--list"]);
    assert!(listed.contains("DAMAGED"), "{listed}");
    ends_with(31, &["inspect", trace]);
}

#[test]
fn a_file_system_on_a_loop_device_is_recorded() {
    let original = Original::new(&[]);
    let Original {
        home,
        image,
        base,
        trace,
        ..
    } = &original;
    for path in [image, base] {
        let file = File::create(path).unwrap();
        file.set_len(32 << 20).unwrap();
    }
    let point = home.directory("point");
    let serving = Serving::start(&[&original.record()[..], &["--loop"]].concat());
    tool("mkfs.ext4", &["-q", serving.device()]);
    let mounted = Mounted::new(&[serving.device()], &point);
    fs::write(mounted.at("file"), vec![7; 100_000]).unwrap();
    mounted.unmount();
    serving.stop();
    let out = home.path("out");
    ends_with(0, &["volume", "replay", base, trace, "--image", &out]);
    assert!(fs::read(&out).unwrap() == fs::read(image).unwrap());
    tool("e2fsck", &["-fn", &out]);
}
