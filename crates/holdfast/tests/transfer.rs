//! `holdfast send` as a process, killed again and again, and through something that stands in for
//! ssh.

#[path = "transfer/changes.rs"]
mod changes;
#[path = "transfer/manifests.rs"]
mod manifests;
#[path = "transfer/trees.rs"]
mod trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long to wait for what should happen.
const PATIENCE: Duration = Duration::from_secs(120);

struct Place {
    home: tempfile::TempDir,
}

impl Place {
    /// On the file system that the build is on: one in memory has no device.
    fn new() -> Place {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Place { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A tree with a large file and small ones.
    fn fill(&self) {
        let source = self.path("source");
        fs::create_dir_all(source.join("small")).expect("directories");
        let mut rng = env::Rng::new(11);
        let mut noise = |length: usize| {
            let mut bytes = vec![0; length];
            rng.fill(&mut bytes);
            bytes
        };
        fs::write(source.join("large"), noise(80 << 20)).expect("a file");
        for number in 0..300 {
            let name = source.join("small").join(number.to_string());
            fs::write(name, noise(number * 31)).expect("a file");
        }
    }

    /// A program that runs what ssh would have run over there.
    fn ssh(&self) -> PathBuf {
        let path = self.path("ssh");
        let script =
            "#!/bin/sh\n[ \"$1\" = -- ] && [ \"$2\" = host ] || exit 9\neval \"exec $3\"\n";
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        path
    }

    fn send(&self, through_ssh: bool) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.arg("send").arg(self.path("source"));
        if through_ssh {
            let to = format!("ssh://host{}", self.path("destination").display());
            command.arg(to).arg("--ssh").arg(self.ssh());
            command.args(["--remote-holdfast", env!("CARGO_BIN_EXE_holdfast")]);
        } else {
            command.arg(self.path("destination"));
        }
        command
    }

    /// What is in place: every file is one of the source, whole.
    fn check(&self, what: &str) -> usize {
        let (right, there) = (
            files(&self.path("source")),
            files(&self.path("destination")),
        );
        for (path, content) in &there {
            assert!(
                right.get(path) == Some(content),
                "{what}: {path:?} is wrong"
            );
        }
        there.len()
    }
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let path = entry.path();
            let relative = path.strip_prefix(root).expect("below the root");
            match path.is_dir() {
                true if relative == Path::new(".holdfast-transfer") => {}
                true => open.push(path),
                false => {
                    let content = fs::read(&path).expect("a readable file");
                    found.insert(relative.to_path_buf(), content);
                }
            }
        }
    }
    found
}

/// Bytes that the destination takes, with what is not in place yet.
fn bytes_below(root: &Path) -> u64 {
    let mut sum = 0;
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            // Files come and go meanwhile.
            match entry.metadata() {
                Ok(found) if found.is_dir() => open.push(entry.path()),
                Ok(found) => sum += found.len(),
                Err(_) => {}
            }
        }
    }
    sum
}

/// Waits until so many bytes are there, or the process has ended; whether it runs still.
fn wait_for(child: &mut Child, root: &Path, bytes: u64) -> bool {
    let begun = Instant::now();
    while bytes_below(root) < bytes {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        assert!(begun.elapsed() < PATIENCE, "{bytes} bytes do not come");
        std::thread::yield_now();
    }
    child.try_wait().expect("a child").is_none()
}

/// The only child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let signal = rustix::process::Signal::KILL;
    rustix::process::kill_process(pid.expect("a process"), signal).expect("a kill");
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Kills one side at rising amounts of data, and ends with a run that nobody kills.
fn kill_again_and_again(through_ssh: bool, receiver: bool) {
    let place = Place::new();
    place.fill();
    let destination = place.path("destination");
    let mut killed = 0;
    for step in 0..10u64 {
        let mut command = place.send(through_ssh);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut sender = command.spawn().expect("a process");
        if wait_for(&mut sender, &destination, 1 + step * (8 << 20)) {
            let victim = match receiver {
                true => child_of(sender.id()),
                false => Some(sender.id()),
            };
            if let Some(victim) = victim {
                kill(victim);
                killed += 1;
            }
        }
        let status = sender.wait().expect("an end");
        if receiver {
            let code = status.code();
            assert!(matches!(code, Some(0 | 52)), "{step}: {code:?}");
        }
        place.check(&format!("after kill {step}"));
    }
    assert!(killed >= 5, "{killed} kills met a running transfer");
    // A receiver whose sender was killed may need a moment to see it and let go of its lock.
    let begun = Instant::now();
    let last = loop {
        let output = place.send(through_ssh).output().expect("a process");
        let busy = output.status.code() == Some(52) && text(&output).contains("another transfer");
        if !busy || begun.elapsed() > PATIENCE {
            break output;
        }
    };
    assert!(last.status.success(), "{}", text(&last));
    assert_eq!(place.check("at the end"), 301);
    assert!(!destination.join(".holdfast-transfer").exists());
}

#[test]
fn a_copy_that_is_killed_again_and_again_comes_to_its_end() {
    kill_again_and_again(false, false);
}

#[test]
fn a_sender_that_is_killed_again_and_again_comes_to_its_end() {
    kill_again_and_again(true, false);
}

#[test]
fn a_receiver_that_is_killed_again_and_again_is_gone_on_with() {
    kill_again_and_again(true, true);
}

#[test]
fn a_host_that_is_not_reached_is_said_to_be() {
    let place = Place::new();
    place.fill();
    fs::write(
        place.path("ssh"),
        "#!/bin/sh\necho no route >&2\nexit 255\n",
    )
    .expect("a script");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path("ssh"), mode).expect("a mode");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("send").arg(place.path("source"));
    command
        .args(["ssh://host/d", "--ssh"])
        .arg(place.path("ssh"));
    let output = command.output().expect("a process");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(52), "{text}");
    assert!(
        text.contains("no route") && text.contains("ended with code 255"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let place = Place::new();
    place.fill();
    let source = place.path("source");
    let send = |to: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let output = command
            .arg("send")
            .arg(&source)
            .arg(to)
            .arg("--json")
            .output();
        let output = output.expect("a process");
        (output.status.code(), text(&output))
    };
    let inside = source.join("within");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    for (to, code, words) in [
        (inside.to_str().expect("UTF-8"), 51, "in each other"),
        ("host:dir", 2, "there is no --tls"),
        ("host:../dir", 2, "no place on another machine"),
        ("ssh://host", 2, "no address"),
        ("/dev/null", 51, "not a directory"),
        (memory.path().to_str().expect("UTF-8"), 51, "it is on tmpfs"),
    ] {
        let (exit, text) = send(to);
        assert_eq!(exit, Some(code), "{to}: {text}");
        assert!(text.contains(words), "{to}: {text}");
    }
    assert!(!inside.exists());
}

/// An authority with certificates for `server`, `client` and others, made by the command.
struct Certificates<'a>(&'a Place);

impl<'a> Certificates<'a> {
    fn new(place: &'a Place) -> Certificates<'a> {
        run(&["ca", "init", &text_of(&place.path("ca"))]);
        let certificates = Certificates(place);
        certificates.issue("server", "server");
        certificates.issue("client", "client");
        certificates
    }

    fn issue(&self, name: &str, into: &str) {
        let (ca, out) = (self.dir("ca"), self.dir(into));
        run(&["ca", "issue", name, "--ca", &ca, "--out", &out]);
    }

    fn dir(&self, name: &str) -> String {
        text_of(&self.0.path(name))
    }
}

fn text_of(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn holdfast(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(words);
    command
}

fn run(words: &[&str]) {
    let output = holdfast(words).output().expect("a process");
    assert!(output.status.success(), "{words:?}: {}", text(&output));
}

/// `holdfast receive --listen`, killed with this value.
struct Receiver {
    process: Child,
    port: String,
}

impl Receiver {
    fn start(place: &Place, port: &str, more: &[&str]) -> Receiver {
        fs::create_dir_all(place.path("root")).expect("a directory");
        let (listen, root) = (format!("127.0.0.1:{port}"), text_of(&place.path("root")));
        let mut command = holdfast(&["receive", "--listen", &listen, "--root", &root]);
        command.args(more).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("a process");
        let output = process.stdout.take().expect("a pipe");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("a line");
        let address = line.split([' ', ',']).nth(2).expect("an address");
        let port = address.rsplit(':').next().expect("a port").to_owned();
        Receiver { process, port }
    }

    fn send(&self, place: &Place, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.arg("send").arg(place.path("source"));
        command.args(["127.0.0.1:destination", "--port", &self.port]);
        command.args(more);
        command
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Place {
    /// Puts the tree that a receiver has where [`Place::check`] looks.
    fn look_at_root(&self) {
        let link = self.path("destination");
        if !link.exists() {
            std::os::unix::fs::symlink(self.path("root/destination"), link).expect("a link");
        }
    }
}

#[test]
fn a_tree_goes_to_a_machine_that_listens_and_goes_on_after_either_side_was_killed() {
    let place = Place::new();
    place.fill();
    let certificates = Certificates::new(&place);
    let (server, client) = (certificates.dir("server"), certificates.dir("client"));
    let serve = ["--tls", &server, "--allow", "client"];
    let send = ["--tls", &client, "--peer", "server"];
    let mut receiver = Receiver::start(&place, "0", &serve);
    let mut killed = 0;
    for step in 0..8u64 {
        let mut command = receiver.send(&place, &send);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut sender = quiet.spawn().expect("a process");
        let runs = wait_for(&mut sender, &place.path("root"), 1 + step * (10 << 20));
        killed += usize::from(runs);
        if step % 2 == 0 {
            kill(sender.id());
        } else {
            let port = receiver.port.clone();
            drop(receiver);
            receiver = Receiver::start(&place, &port, &serve);
        }
        let status = sender.wait().expect("an end");
        let expected = [None, Some(0), Some(51), Some(52)];
        assert!(expected.contains(&status.code()), "{step}: {status}");
        place.look_at_root();
        place.check(&format!("after kill {step}"));
    }
    assert!(killed >= 3, "{killed} kills met a running transfer");
    let begun = Instant::now();
    let last = loop {
        let output = receiver.send(&place, &send).output().expect("a process");
        let busy = output.status.code() == Some(52) && text(&output).contains("another transfer");
        if !busy || begun.elapsed() > PATIENCE {
            break output;
        }
    };
    assert!(last.status.success(), "{}", text(&last));
    assert_eq!(place.check("at the end"), 301);
    assert!(!place.path("root/destination/.holdfast-transfer").exists());
}

#[test]
fn who_is_not_trusted_gets_nothing_and_is_told_why() {
    let place = Place::new();
    place.fill();
    let certificates = Certificates::new(&place);
    certificates.issue("stranger", "stranger");
    run(&["ca", "init", &certificates.dir("other")]);
    let (other, foreign) = (certificates.dir("other"), certificates.dir("foreign"));
    run(&["ca", "issue", "client", "--ca", &other, "--out", &foreign]);
    let (server, client) = (certificates.dir("server"), certificates.dir("client"));
    let stranger = certificates.dir("stranger");
    // Somebody who trusts the server, with a certificate that the server does not trust.
    let mixed = certificates.dir("mixed");
    run(&["ca", "issue", "client", "--ca", &other, "--out", &mixed]);
    fs::copy(place.path("ca/ca.pem"), place.path("mixed/ca.pem")).expect("a copy");
    let receiver = Receiver::start(&place, "0", &["--tls", &server, "--allow", "client"]);
    for (more, code, words) in [
        (
            &["--tls", &foreign, "--peer", "server"][..],
            53,
            "not from the same authority",
        ),
        (
            &["--tls", &mixed, "--peer", "server"],
            53,
            "does not accept the certificate",
        ),
        (
            &["--tls", &client, "--peer", "another"],
            53,
            "of another name",
        ),
        (&["--tls", &client], 53, "of another name"),
        (
            &["--tls", &stranger, "--peer", "server"],
            52,
            "not among those",
        ),
        (&[], 52, ""),
        (&["--tls", "/does/not/exist"], 53, "no such file"),
    ] {
        let output = receiver.send(&place, more).output().expect("a process");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(words), "{more:?}: {said}");
        let there = fs::read_dir(place.path("root"))
            .expect("a directory")
            .count();
        assert_eq!(there, 0, "{more:?}");
    }
    // And who is trusted is served all the same.
    let good = ["--tls", &client, "--peer", "server"];
    let output = receiver.send(&place, &good).output().expect("a process");
    assert!(output.status.success(), "{}", text(&output));
    // In the clear only with this machine, or where it is said.
    for (at, more, code) in [
        ("0.0.0.0:0", &[][..], 2),
        ("0.0.0.0:0", &["--tls", "/does/not/exist"], 53),
    ] {
        let root = text_of(&place.path("root"));
        let mut command = holdfast(&["receive", "--listen", at, "--root", &root]);
        let output = command.args(more).output().expect("a process");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
    }
}

#[test]
fn a_manifest_is_signed_by_the_receiver_and_finds_what_rots_later() {
    let place = Place::new();
    place.fill();
    let certificates = Certificates::new(&place);
    let (server, client) = (certificates.dir("server"), certificates.dir("client"));
    let receiver = Receiver::start(&place, "0", &["--tls", &server]);
    let manifest = text_of(&place.path("manifest"));
    let send = [
        "--tls",
        &client,
        "--peer",
        "server",
        "--manifest",
        &manifest,
    ];
    let output = receiver.send(&place, &send).output().expect("a process");
    assert!(output.status.success(), "{}", text(&output));
    let (there, ca) = (
        text_of(&place.path("root/destination")),
        certificates.dir("ca/ca.pem"),
    );
    let verify = |manifest: &str, more: &[&str]| {
        let output = holdfast(&["verify", manifest, &there]).args(more).output();
        let output = output.expect("a process");
        (output.status.code(), text(&output))
    };
    let (code, said) = verify(&manifest, &["--ca", &ca]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("signed by: server") && said.contains("301 files"),
        "{said}"
    );
    // Of another authority; changed; signed by nobody.
    run(&["ca", "init", &certificates.dir("other")]);
    let (code, said) = verify(&manifest, &["--ca", &certificates.dir("other/ca.pem")]);
    assert_eq!(code, Some(53), "{said}");
    let content = fs::read_to_string(&manifest).expect("text");
    let changed = text_of(&place.path("changed"));
    fs::write(&changed, content.replace("file device", "file medium")).expect("a file");
    assert_eq!(verify(&changed, &[]).0, Some(31));
    let unsigned: Vec<&str> = content
        .lines()
        .filter(|line| !line.starts_with("signed"))
        .collect();
    fs::write(&changed, unsigned.join("\n") + "\n").expect("a file");
    assert_eq!(verify(&changed, &["--ca", &ca]).0, Some(53));
    assert_eq!(verify(&changed, &[]).0, Some(0));
    assert_eq!(verify(&there, &[]).0, Some(30));
    // A byte goes bad, and length and time say nothing.
    let path = place.path("root/destination/large");
    let file = fs::File::options().write(true).open(&path).expect("a file");
    let before = file
        .metadata()
        .and_then(|found| found.modified())
        .expect("a time");
    std::os::unix::fs::FileExt::write_all_at(&file, b"?", 5_000_000).expect("a write");
    file.set_modified(before).expect("a time");
    let (code, said) = verify(&manifest, &["--json", "--ca", &ca]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("it has rotted") && said.contains("\"large\""),
        "{said}"
    );
}

/// A file system on a loop device, gone with this value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(place: &Place) -> Mounted {
        let (image, at) = (place.path("image"), place.path("mounted"));
        fs::create_dir(&at).expect("a directory");
        fs::File::create(&image)
            .and_then(|file| file.set_len(64 << 20))
            .expect("an image");
        let make = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
        assert!(make.expect("a process").success());
        let mount = Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &at])
            .status();
        assert!(mount.expect("a process").success());
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_fault_that_is_injected_below_the_page_cache_is_found_by_who_reads_the_device() {
    let place = Place::new();
    fs::create_dir(place.path("source")).expect("a directory");
    let content = vec![7; 100_000];
    for name in ["one", "two"] {
        fs::write(place.path("source").join(name), &content).expect("a file");
    }
    let mounted = Mounted::new(&place);
    let (to, manifest) = (
        text_of(&mounted.0.join("to")),
        text_of(&place.path("manifest")),
    );
    run(&[
        "send",
        &text_of(&place.path("source")),
        &to,
        "--manifest",
        &manifest,
    ]);
    run(&["verify", &manifest, &to]);
    let (one, two) = (mounted.0.join("to/one"), mounted.0.join("to/two"));
    // The kernel has it in memory, and goes on to return the right bytes.
    assert_eq!(fs::read(&one).expect("a file"), content);
    run(&[
        "inject",
        &text_of(&one),
        "--layer",
        "device",
        "--pages",
        "3,5-6",
    ]);
    assert_eq!(fs::read(&one).expect("a file"), content);
    let output = holdfast(&["verify", &manifest, &to])
        .output()
        .expect("a process");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("one: ") && !said.contains("two: "), "{said}");
    let wrong = fs::read(&one).expect("a file");
    let differs = (0..25).filter(|page| {
        let bytes = page * 4096..(page * 4096 + 4096).min(content.len());
        wrong[bytes.clone()] != content[bytes]
    });
    assert_eq!(differs.collect::<Vec<_>>(), [3, 5, 6]);
    run(&[
        "inject",
        &text_of(&two),
        "--layer",
        "memory",
        "--pages",
        "0",
    ]);
    let output = holdfast(&["verify", &manifest, &to])
        .output()
        .expect("a process");
    assert!(text(&output).contains("two: "), "{}", text(&output));
    for (layer, pages) in [("medium", "0"), ("device", "25")] {
        let words = ["inject", &text_of(&two), "--layer", layer, "--pages", pages];
        let output = holdfast(&words).output().expect("a process");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    }
}
