use super::*;
use crate::engine::double::{self, Double};
use signal_hook::consts::SIGTERM;
use std::sync::mpsc::Sender;

fn double() -> (Double, Sender<Wake>, Receiver<Wake>) {
    let (wake, woken) = channel();
    let events = wake.clone();
    let engine = Double::new(Arc::new(move |event| {
        events.send(Wake::Engine(event)).expect("the test listens");
    }));
    (engine, wake, woken)
}

const MOUNT: &str = "/srv/holdfast";

#[test]
fn the_report_of_a_start() {
    let notes = ["cleared /srv/holdfast: a holdfast that died had left its mount there".to_owned()];
    let text = report::text(&double::status(), &notes);
    insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn wishes_that_the_set_does_not_follow_are_named() {
    let status = double::status();
    let kept = status.copies;
    assert!(report::unheeded(None, &[], &status).is_empty());
    assert!(report::unheeded(Some(kept), &[], &status).is_empty());
    let notes = report::unheeded(Some(kept + 1), &[0, 9], &status);
    insta::assert_snapshot!(notes.join("\n"));
}

#[test]
fn a_set_that_cannot_encode_says_so() {
    let mut status = double::status();
    assert_eq!(report::unencoded(0, &status), None);
    let note = report::unencoded(50, &status).expect("a note");
    assert!(note.contains("frees nothing"), "{note}");
    status.encoding = Some(redundancy::status::EncodingStatus {
        code: "2+1".to_owned(),
        ..Default::default()
    });
    assert_eq!(report::unencoded(50, &status), None);
}

#[test]
fn a_signal_stops_even_a_busy_mount() {
    let (engine, wake, woken) = double();
    *engine.busy.lock() = true;
    wake.send(Wake::Signal(SIGTERM)).expect("the test listens");
    serve(&engine, &woken, Path::new(MOUNT)).expect("a clean stop");
    assert!(*engine.stopped.lock());
}

#[test]
fn down_leaves_a_busy_mount_alone_unless_forced() {
    let (engine, wake, woken) = double();
    *engine.busy.lock() = true;
    let (reply, outcomes) = channel();
    for force in [false, true] {
        let reply = reply.clone();
        let down = Wake::Down(Down { force, reply });
        wake.send(down).expect("the test listens");
    }
    serve(&engine, &woken, Path::new(MOUNT)).expect("a clean stop");
    let refused = outcomes.recv().expect("an answer");
    assert_eq!(refused.expect_err("it is busy").exit, Exit::MountBusy);
    assert_eq!(outcomes.recv().expect("an answer"), Ok(()));
}

#[test]
fn an_unmount_from_outside_ends_the_process() {
    let (engine, _wake, woken) = double();
    (engine.on_event)(Event::Unmounted);
    serve(&engine, &woken, Path::new(MOUNT)).expect("a clean stop");
    assert!(*engine.stopped.lock());
}

#[test]
fn a_busy_mount_names_its_users() {
    let users = ["bash (17)".to_owned(), "vim (18)".to_owned()];
    insta::assert_snapshot!(busy(Path::new(MOUNT), &users).to_string());
}
