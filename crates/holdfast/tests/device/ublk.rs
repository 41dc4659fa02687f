//! `holdfast volume serve --ublk`: refused where the kernel has no driver; where it has one, a file
//! system on the device keeps its files. Needs root.

use crate::processes::{Home, Mounted, Serving, ends_with, tool};
use std::path::Path;

#[test]
fn a_device_of_the_kernel_is_served_or_refused_with_advice() {
    let home = Home::new();
    let path = home.path("volume");
    let words = ["volume", "create", &path, "--file-bytes", "160M"];
    ends_with(0, &[&words[..], &["--segment-bytes", "256K"]].concat());
    let serve = ["volume", "serve", &path, "--ublk"];
    if !Path::new("/dev/ublk-control").exists() {
        let said = ends_with(45, &serve);
        assert!(said.contains("modprobe ublk_drv"), "{said}");
        assert!(said.contains("nothing was changed"), "{said}");
        ends_with(0, &["volume", "check", &path]);
        return;
    }
    let point = home.directory("point");
    let content = vec![7; 3 << 20];
    let serving = Serving::start(&serve);
    tool("mkfs.ext4", &["-q", &serving.file]);
    let mounted = Mounted::new(&[&serving.file], &point);
    std::fs::write(mounted.at("file"), &content).unwrap();
    mounted.unmount();
    serving.stop();
    ends_with(0, &["volume", "check", &path]);
    let serving = Serving::start(&serve);
    tool("e2fsck", &["-fn", &serving.file]);
    let mounted = Mounted::new(&[&serving.file], &point);
    assert!(std::fs::read(mounted.at("file")).unwrap() == content);
    mounted.unmount();
    serving.stop();
}

#[test]
fn it_is_one_of_the_places_that_exclude_each_other() {
    let home = Home::new();
    let (path, socket) = (home.path("volume"), home.path("socket"));
    let words = ["volume", "serve", &path, "--ublk", "--socket", &socket];
    ends_with(2, &words);
    ends_with(2, &["volume", "serve", &path]);
}
