//! A disk that is really full: a small tmpfs. Needs root, as `make test` does.

#[path = "support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;

use client::Client;
use served::Served;
use std::path::Path;

/// Not a test of its own: what the other process does.
#[test]
fn child() {
    served::serve(holdfast_kv::Policy::EverySecond);
}

/// A mounted tmpfs, unmounted at the end also when the test fails.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Nothing else can be done where this fails.
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_goes_on_when_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", home.path(), "tmpfs", flags, c"size=3m").expect("root may mount");
    let mounted = Mounted(home.path());
    let mut served = Served::start(home.path());
    let mut client = Client::connect(served.port).unwrap();
    let value = "x".repeat(1000);
    let mut taken = 0;
    let refusal = loop {
        let reply = client
            .ask(&["SET", &format!("key{taken}"), &value])
            .unwrap();
        if reply != "+OK" {
            break reply;
        }
        taken += 1;
        assert!(taken < 20_000, "it never fills");
    };
    assert!(refusal.starts_with("-MISCONF"), "{refusal}");
    assert_eq!(client.ask(&["GET", "key0"]).unwrap(), value);
    let info = client.ask(&["INFO", "persistence"]).unwrap();
    assert!(info.contains("aof_last_write_status:err"), "{info}");
    assert!(info.contains("make room"), "{info}");
    rustix::mount::mount_remount(home.path(), flags, c"size=32m").expect("root may mount");
    let mut tries = 0;
    while client.ask(&["SET", "there is", "room"]).unwrap() != "+OK" {
        tries += 1;
        assert!(tries < 1_000_000, "it never goes on");
    }
    assert_eq!(client.ask(&["SAVE"]).unwrap(), "+OK");
    served.kill();
    let mut served = Served::start(home.path());
    let mut client = Client::connect(served.port).unwrap();
    for number in 0..taken {
        assert_eq!(
            client.ask(&["GET", &format!("key{number}")]).unwrap(),
            value,
            "{number}"
        );
    }
    served.kill();
    drop(mounted);
}
