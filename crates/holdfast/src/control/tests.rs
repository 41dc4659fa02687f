use super::*;
use crate::engine::Comparing;
use crate::engine::double::Double;
use crate::exit::Exit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

const MOUNT: &str = "/srv/holdfast";

fn served(runtime: &Path, on_down: server::OnDown) -> (place::Place, server::Server) {
    let place = place::Place::take(runtime, Path::new(MOUNT)).expect("a free place");
    let engine = Arc::new(Double::new(Arc::new(|_| {})));
    let listener = place.listen().expect("a socket");
    let server = server::Server::start(listener, engine, on_down).expect("a thread");
    (place, server)
}

fn ask(runtime: &Path, request: &Request) -> Outcome<Answer> {
    client::ask(runtime, Path::new(MOUNT), request, TIME_LIMIT)
}

#[test]
fn names_are_reversible_and_safe() {
    for mount in [
        "/",
        "/srv/holdfast",
        "/a-b/c%d",
        "/.x/..y",
        "/\u{fc}",
        "/a b",
        "/-",
    ] {
        let name = place::name_of(Path::new(mount));
        assert!(!name.to_string_lossy().contains('/'), "{name:?}");
        assert!(!name.to_string_lossy().starts_with('.'), "{name:?}");
        assert_eq!(place::mount_of(&name).as_deref(), Some(Path::new(mount)));
    }
    assert_eq!(place::name_of(Path::new(MOUNT)), "srv-holdfast");
    for not_ours in ["%2", "%zz", "%61", ".x"] {
        assert_eq!(place::mount_of(not_ours.as_ref()), None, "{not_ours}");
    }
}

#[test]
fn every_request_is_answered() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let (_place, server) = served(runtime.path(), Box::new(|_| {}));
    let status = ask(runtime.path(), &Request::Status).expect("an answer");
    assert!(matches!(status, Answer::Status(status) if status.pid == 4711));
    let path = PathBuf::from("/mnt/back");
    let failure = ask(runtime.path(), &Request::Attach { path }).expect_err("nothing is away");
    assert_eq!(failure.exit, Exit::StoreRefused);
    ask(runtime.path(), &Request::Detach { index: 2 }).expect("an answer");
    let path = PathBuf::from("/mnt/back");
    let attached = ask(runtime.path(), &Request::Attach { path }).expect("an answer");
    assert_eq!(attached, Answer::Attached { index: 2 });
    let failure = ask(runtime.path(), &Request::Detach { index: 9 }).expect_err("no store 9");
    assert_eq!(failure.exit, Exit::Usage);
    let path = PathBuf::from("relative");
    let failure = ask(runtime.path(), &Request::Attach { path }).expect_err("a relative path");
    assert_eq!(failure.exit, Exit::StorePath);
    let early = ask(runtime.path(), &Request::CheckProgress).expect_err("nothing started");
    assert_eq!(early.exit, Exit::NotRunning);
    ask(
        runtime.path(),
        &Request::Check {
            how: Comparing::Check,
        },
    )
    .expect("an answer");
    let report = (0..10_000).find_map(|_| {
        std::thread::yield_now();
        match ask(runtime.path(), &Request::CheckProgress) {
            Ok(Answer::Checked(report)) => Some(report),
            _ => None,
        }
    });
    assert_eq!(report.expect("the double is quick").objects, 7);
    server.stop();
}

#[test]
fn down_is_answered_after_the_main_thread_decided() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let (asked, main) = channel();
    let on_down = Box::new(move |down| asked.send(down).expect("the main thread listens"));
    let (place, server) = served(runtime.path(), on_down);
    let dir = runtime.path().to_path_buf();
    let client = std::thread::spawn(move || ask(&dir, &Request::Down { force: true }));
    let down: server::Down = main.recv().expect("a request");
    assert!(down.force);
    down.reply.send(Ok(())).expect("somebody waits");
    server.stop();
    let answer = client.join().expect("no panic").expect("an answer");
    assert_eq!(answer, Answer::Done);
    drop(place);
    let left = std::fs::read_dir(runtime.path())
        .expect("the directory")
        .count();
    assert_eq!(left, 0, "a clean stop leaves nothing behind");
}

#[test]
fn a_mount_is_served_once() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let _first = place::Place::take(runtime.path(), Path::new(MOUNT)).expect("a free place");
    let failure =
        place::Place::take(runtime.path(), Path::new(MOUNT)).expect_err("the place is taken");
    insta::assert_snapshot!(failure.to_string());
}

#[test]
fn a_mount_is_found_however_it_is_written() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let real = runtime.path().join("real");
    std::fs::create_dir(&real).expect("a new directory");
    let link = runtime.path().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("a new link");
    let sockets = runtime.path().join("run");
    let place = place::Place::take(&sockets, &link.join("mnt")).expect("a free place");
    let _listener = place.listen().expect("a socket");
    for written in [real.join("mnt"), real.join("./mnt/"), link.join("mnt")] {
        assert!(place::connect(&sockets, &written).is_ok(), "{written:?}");
    }
}

#[test]
fn the_socket_of_a_dead_process_is_replaced() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let dir = runtime.path().join("srv-holdfast");
    std::fs::create_dir(&dir).expect("a new directory");
    drop(UnixListener::bind(dir.join("socket")).expect("a socket"));
    let failure = ask(runtime.path(), &Request::Status).expect_err("nobody listens");
    assert_eq!(failure.exit, Exit::NotRunning);
    let (_place, server) = served(runtime.path(), Box::new(|_| {}));
    ask(runtime.path(), &Request::Status).expect("an answer");
    server.stop();
}

#[test]
fn a_mount_path_longer_than_a_socket_address_works() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let mount = PathBuf::from(format!("/{}", "x".repeat(200)));
    let place = place::Place::take(runtime.path(), &mount).expect("a free place");
    let _listener = place.listen().expect("a socket");
    assert!(place::connect(runtime.path(), &mount).is_ok());
    let too_long = PathBuf::from(format!("/{}", "x".repeat(300)));
    let failure = place::Place::take(runtime.path(), &too_long).expect_err("too long");
    assert_eq!(failure.exit, Exit::MountPoint);
}

#[test]
fn nothing_running_is_said_clearly() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let any = client::choose(runtime.path(), None).expect_err("nothing runs");
    insta::assert_snapshot!("nothing_running_at_all", any.to_string());
    let named = ask(runtime.path(), &Request::Status).expect_err("nothing runs");
    insta::assert_snapshot!("nothing_running_there", named.to_string());
}

#[test]
fn several_mounts_must_be_told_apart() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let take = |mount: &str| {
        let place = place::Place::take(runtime.path(), Path::new(mount)).expect("a free place");
        let listener = place.listen().expect("a socket");
        (place, listener)
    };
    let _a = take("/a");
    assert_eq!(
        client::choose(runtime.path(), None).expect("only one"),
        Path::new("/a")
    );
    let _b = take("/b");
    let failure = client::choose(runtime.path(), None).expect_err("two");
    insta::assert_snapshot!(failure.to_string());
}

#[test]
fn lines_that_are_too_long_or_of_another_version_are_refused() {
    let long = [b'x'; 100];
    assert!(receive(&long[..], 50).is_err());
    assert!(receive(&b"{}"[..], 50).is_err(), "no newline");
    assert_eq!(receive(&b""[..], 50).expect("nothing"), None);
    let failure = parse::<Request>("{\"version\":2,\"body\":\"status\"}").expect_err("version 2");
    insta::assert_snapshot!(failure.to_string());
    assert!(parse::<Request>("{\"version\":1,\"body\":\"reboot\"}").is_err());
}

#[test]
fn a_client_that_says_nothing_does_not_block_the_others() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let (_place, server) = served(runtime.path(), Box::new(|_| {}));
    let silent: Vec<UnixStream> = (0..3)
        .map(|_| place::connect(runtime.path(), Path::new(MOUNT)).expect("a connection"))
        .collect();
    ask(runtime.path(), &Request::Status).expect("an answer");
    drop(silent);
    server.stop();
}
