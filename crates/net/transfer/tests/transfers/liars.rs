//! Senders that say what no sender may: each is sent away, and nothing is where it should not be.

use codec::crc32c;
use env::real::{RealClock, RealNet, connected_pair};
use env::{Clock, Moment};
use holdfast_transfer::{
    Destination, Entry, FailureKind, Level, Meta, Piece, STAGING, Settings, Source, ToReceiver,
    TransferError, TreePath, What, receive,
};
use rpc::{Channel, Connection, Limits, Role};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn soon() -> Moment {
    RealClock.now().after(Duration::from_secs(60))
}

struct Liar(Channel);

impl Liar {
    fn say(&self, message: &ToReceiver, bulk: &[u8]) {
        // What is said after it was sent away does not arrive.
        let _gone = self.0.send(&rpc::encode(message).unwrap(), bulk, soon());
    }

    fn offer(&self, first: u64, entries: Vec<Entry>) {
        self.say(&ToReceiver::Offer { first, entries }, &[]);
    }

    fn data(&self, index: u64, offset: u64, bytes: &[u8]) {
        let sums = bytes.chunks(4096).map(crc32c).collect();
        let data = ToReceiver::Data {
            index,
            offset,
            sums,
        };
        self.say(&data, bytes);
    }

    fn mixed(&self, pieces: Vec<Piece>, pages: usize, sent: &[u8]) {
        let mixed = ToReceiver::Mixed {
            index: 0,
            offset: 0,
            sums: vec![1; pages],
            pieces,
        };
        self.say(&mixed, sent);
    }

    fn list(&self, average: u32) {
        self.say(&ToReceiver::List { index: 0, average }, &[]);
    }

    fn end(&self, index: u64) {
        let failed = None;
        self.say(&ToReceiver::End { index, failed }, &[]);
    }

    fn batch(&self, number: u64) {
        self.say(&ToReceiver::Batch { number }, &[]);
    }
}

fn path(text: &str) -> TreePath {
    // As a peer may write it: the names are not looked at.
    TreePath::root().join(text.as_bytes())
}

fn file(name: &str, bytes: u64) -> Entry {
    let source = Source {
        bytes,
        ..Source::default()
    };
    object(name, What::File(source))
}

fn object(name: &str, what: What) -> Entry {
    Entry {
        path: path(name),
        meta: Meta {
            mode: 0o644,
            ..Meta::default()
        },
        what,
    }
}

/// Of the messages, as this test speaks them.
const VERSION: u16 = 4;

fn begin(version: u16, below: TreePath) -> ToReceiver {
    ToReceiver::Begin {
        version,
        level: Level::Wire,
        below,
        manifest: false,
        write_cache: None,
        delete: None,
        dry: false,
    }
}

/// What a receiver answers to what `lie` says to it. A process that another test starts has the
/// lock of a receiver open until it is another program.
fn told(root: &Path, lie: impl Fn(&Liar)) -> Result<(), TransferError> {
    for _ in 0..1000 {
        match told_once(root, &lie) {
            Err(TransferError::Failed {
                kind: FailureKind::Busy,
                ..
            }) => std::thread::yield_now(),
            answer => return answer,
        }
    }
    panic!("the destination stays busy");
}

fn told_once(root: &Path, lie: impl Fn(&Liar)) -> Result<(), TransferError> {
    let (here, there) = connected_pair().unwrap();
    std::thread::scope(|scope| {
        let limits = Limits::default();
        let server = Connection::start(there, &RealNet, Role::Server, limits).unwrap();
        let client = Connection::start(here, &RealNet, Role::Client, limits).unwrap();
        let receiving = scope.spawn(move || {
            receive(
                Destination::At(root),
                &server,
                &RealClock,
                &Settings::default(),
            )
        });
        let begin = rpc::encode(&begin(VERSION, TreePath::root())).unwrap();
        let liar = Liar(client.open(&begin, &[], soon()).unwrap());
        lie(&liar);
        let _gone = liar.0.finish();
        // All that the receiver says is taken, so that it never waits.
        while let Ok(Some(_)) = liar.0.receive(soon()) {}
        receiving.join().unwrap()
    })
}

type Lie = fn(&Liar);

const LIES: &[(&str, Lie)] = &[
    ("a path upwards", |l| l.offer(0, vec![file("../out", 1)])),
    ("a path from the root", |l| {
        l.offer(0, vec![file("/tmp/out", 1)])
    }),
    ("a way round", |l| l.offer(0, vec![file("a/../../out", 1)])),
    ("the receiver's own directory", |l| {
        l.offer(0, vec![file(".holdfast-transfer/lock", 1)]);
    }),
    ("a link's first name outside", |l| {
        l.offer(0, vec![object("a", What::SameAs(path("../out")))]);
    }),
    ("a name with a NUL", |l| l.offer(0, vec![file("a\0b", 1)])),
    ("a file that is the root", |l| {
        let root = Entry {
            path: TreePath::root(),
            ..file("x", 1)
        };
        l.offer(0, vec![root]);
    }),
    ("a number that is skipped", |l| {
        l.offer(1, vec![file("a", 1)])
    }),
    ("more offers than there may be", |l| {
        for first in (0..2000).step_by(200) {
            l.offer(first, (0..200).map(|n| file(&format!("f{n}"), 1)).collect());
        }
    }),
    ("more bytes than the file has", |l| {
        l.offer(0, vec![file("a", 100)]);
        l.data(0, 0, &[1; 5000]);
    }),
    ("an offset behind all ends", |l| {
        l.offer(0, vec![file("a", u64::MAX)]);
        l.data(0, u64::MAX - 4095, &[1; 4096]);
        l.data(0, u64::MAX - 4095, &[1; 4096]);
    }),
    ("an offset within a page", |l| {
        l.offer(0, vec![file("a", 9000)]);
        l.data(0, 100, &[1; 4096]);
    }),
    ("data that goes backwards", |l| {
        l.offer(0, vec![file("a", 9000)]);
        l.data(0, 4096, &[1; 4096]);
        l.data(0, 0, &[1; 4096]);
    }),
    ("data with other checksums", |l| {
        l.offer(0, vec![file("a", 4096)]);
        let sums = vec![1];
        l.say(
            &ToReceiver::Data {
                index: 0,
                offset: 0,
                sums,
            },
            &[1; 4096],
        );
    }),
    ("data without bytes", |l| {
        l.offer(0, vec![file("a", 4096)]);
        let sums = vec![];
        l.say(
            &ToReceiver::Data {
                index: 0,
                offset: 0,
                sums,
            },
            &[],
        );
    }),
    ("the content of a directory", |l| {
        l.offer(0, vec![object("a", What::Directory)]);
        l.data(0, 0, &[1; 10]);
    }),
    ("the content of a later file", |l| {
        l.offer(0, vec![file("a", 10), file("b", 10)]);
        l.data(1, 0, &[1; 10]);
    }),
    ("what nobody offered", |l| l.data(0, 0, &[1; 10])),
    ("an end out of order", |l| {
        l.offer(0, vec![file("a", 0), file("b", 0)]);
        l.end(1);
    }),
    ("a comparison that nobody wanted", |l| {
        l.offer(0, vec![file("a", 4096)]);
        let sums = vec![1];
        l.say(
            &ToReceiver::Compare {
                index: 0,
                offset: 0,
                bytes: 4096,
                sums,
            },
            &[],
        );
    }),
    ("pages that nobody asked for", |l| {
        for _ in 0..400 {
            let sums = vec![crc32c(&[1; 10])];
            l.say(
                &ToReceiver::Patch {
                    index: 0,
                    offset: 0,
                    sums,
                },
                &[1; 10],
            );
        }
    }),
    ("another file in the place of one", |l| {
        l.offer(0, vec![file("a", 4096)]);
        let entry = file("b", 4096);
        l.say(&ToReceiver::Restart { index: 0, entry }, &[]);
    }),
    ("a batch of another number", |l| l.batch(1)),
    ("an end before the last batch", |l| {
        l.offer(0, vec![file("a", 0)]);
        l.end(0);
    }),
    ("an end of all before the last batch", |l| {
        l.offer(0, vec![file("a", 0)]);
        l.say(&ToReceiver::Close { settle: false }, &[]);
    }),
    ("a proof of what waits before the last batch", |l| {
        l.offer(0, vec![file("a", 0)]);
        l.say(&ToReceiver::Settle { scratch: false }, &[]);
    }),
    ("a deletion that was not spoken of", |l| {
        l.say(&ToReceiver::Sweep { max: None }, &[]);
    }),
    ("two ends", |l| {
        l.say(&ToReceiver::Close { settle: false }, &[]);
        l.say(&ToReceiver::Close { settle: true }, &[]);
    }),
    ("an offer behind the end", |l| {
        l.say(&ToReceiver::Close { settle: false }, &[]);
        l.offer(0, vec![file("a", 1)]);
    }),
    ("a second beginning", |l| {
        l.say(&begin(VERSION, TreePath::root()), &[]);
    }),
];

#[test]
fn who_lies_is_sent_away_and_nothing_is_where_it_should_not_be() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = place.path().join("root");
    for (name, lie) in LIES {
        let answer = told(&root, lie);
        assert!(
            matches!(answer, Err(TransferError::Violation(_))),
            "{name}: {answer:?}"
        );
        let names = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.map(|name| name.into_string().unwrap()).collect()
        };
        assert_eq!(names(place.path()), ["root"], "{name}");
        assert_eq!(names(&root), [STAGING], "{name}");
    }
}

fn old(from: u64, bytes: u32) -> Piece {
    Piece::Old { from, bytes }
}

/// With an old file of 100,000 bytes that a new one is to replace.
const LIES_OF_PARTS: &[(&str, Lie)] = &[
    ("parts of what was not listed", |l| {
        l.mixed(vec![old(0, 4096)], 1, &[]);
    }),
    ("parts behind the end", |l| {
        l.list(16 << 10);
        l.mixed(vec![old(99_000, 4096)], 1, &[]);
    }),
    ("parts behind all ends", |l| {
        l.list(16 << 10);
        l.mixed(vec![old(u64::MAX, 4096)], 1, &[]);
    }),
    ("more in parts than a range has", |l| {
        l.list(16 << 10);
        l.mixed(vec![old(0, 65_536); 17], 272, &[]);
    }),
    ("parts that are longer than anything", |l| {
        l.list(16 << 10);
        l.mixed(vec![old(0, u32::MAX); 9], 1, &[]);
    }),
    ("less bytes than the pieces have", |l| {
        l.list(16 << 10);
        l.mixed(vec![Piece::Sent(100), old(0, 100)], 1, &[1; 99]);
    }),
    ("more bytes than the pieces have", |l| {
        l.list(16 << 10);
        l.mixed(vec![Piece::Sent(100), old(0, 100)], 1, &[1; 101]);
    }),
    ("other sums than there are pages", |l| {
        l.list(16 << 10);
        l.mixed(vec![old(0, 4097)], 1, &[]);
    }),
    ("a range of no pieces", |l| {
        l.list(16 << 10);
        l.mixed(vec![], 0, &[]);
    }),
    ("an average of nothing", |l| l.list(0)),
    ("an average that is too long", |l| l.list(1 << 31)),
    ("two lists of one file", |l| {
        l.list(16 << 10);
        l.list(16 << 10);
    }),
    ("a list of nothing offered", |l| {
        let average = 16 << 10;
        l.say(&ToReceiver::List { index: 7, average }, &[]);
    }),
];

#[test]
fn who_lies_about_parts_of_the_old_file_is_sent_away() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    let before = vec![5; 100_000];
    fs::write(root.join("a"), &before).unwrap();
    for (name, lie) in LIES_OF_PARTS {
        let answer = told(&root, |liar| {
            liar.offer(0, vec![file("a", 200_000)]);
            lie(liar);
        });
        assert!(
            matches!(answer, Err(TransferError::Violation(_))),
            "{name}: {answer:?}"
        );
        assert_eq!(fs::read(root.join("a")).unwrap(), before, "{name}");
    }
}

/// The control: what an honest sender says is taken.
#[test]
fn who_does_not_lie_is_not_sent_away() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let answer = told(place.path(), |liar| {
        liar.offer(0, vec![object("dir", What::Directory), file("dir/a", 5000)]);
        liar.end(0);
        liar.data(1, 0, &[7; 5000]);
        liar.end(1);
        liar.batch(0);
    });
    assert_eq!(answer, Ok(()));
    assert_eq!(fs::read(place.path().join("dir/a")).unwrap(), [7; 5000]);
}

/// A link that the sender makes itself is no way out either.
#[test]
fn a_link_that_was_sent_is_not_followed() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (root, out) = (place.path().join("root"), place.path().join("out"));
    fs::create_dir(&out).unwrap();
    let answer = told(&root, |liar| {
        liar.offer(
            0,
            vec![
                object("way", What::Link(b"../out".to_vec())),
                object("way", What::Directory),
                file("way/a", 10),
                object("way/b", What::Pipe),
                object("way", What::Leave),
            ],
        );
        liar.end(0);
        liar.end(1);
        liar.data(2, 0, &[7; 10]);
        (2..5).for_each(|index| liar.end(index));
        liar.batch(0);
    });
    assert_eq!(answer, Ok(()));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    assert!(fs::symlink_metadata(root.join("way")).unwrap().is_symlink());
}

#[test]
fn a_sender_of_another_version_is_told_so() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (here, there) = connected_pair().unwrap();
    std::thread::scope(|scope| {
        let limits = Limits::default();
        let server = Connection::start(there, &RealNet, Role::Server, limits).unwrap();
        let client = Connection::start(here, &RealNet, Role::Client, limits).unwrap();
        let root = place.path();
        let receiving = scope.spawn(move || {
            let received = receive(
                Destination::At(root),
                &server,
                &RealClock,
                &Settings::default(),
            );
            // What was said last arrives before the connection goes.
            server.close(soon()).unwrap();
            received
        });
        let begin = begin(VERSION + 1, TreePath::root());
        let channel = client
            .open(&rpc::encode(&begin).unwrap(), &[], soon())
            .unwrap();
        let answer = channel.receive(soon()).unwrap().unwrap();
        let text = format!(
            "{:?}",
            rpc::decode::<holdfast_transfer::ToSender>(&answer.body)
        );
        let words = format!("the receiver speaks version {VERSION}");
        assert!(text.contains(&words), "{text}");
        drop(channel);
        client.close(soon()).unwrap();
        assert!(receiving.join().unwrap().is_err());
    });
}

/// What a receiver of several places answers to who asks for `below`.
fn asked_for(root: &Path, below: TreePath) -> Result<(), TransferError> {
    let (here, there) = connected_pair().unwrap();
    std::thread::scope(|scope| {
        let limits = Limits::default();
        let server = Connection::start(there, &RealNet, Role::Server, limits).unwrap();
        let client = Connection::start(here, &RealNet, Role::Client, limits).unwrap();
        let receiving = scope.spawn(move || {
            let (settings, root) = (Settings::default(), Destination::Below(root));
            receive(root, &server, &RealClock, &settings)
        });
        let begin = rpc::encode(&begin(VERSION, below)).unwrap();
        let channel = client.open(&begin, &[], soon()).unwrap();
        let _gone = channel.finish();
        while let Ok(Some(_)) = channel.receive(soon()) {}
        receiving.join().unwrap()
    })
}

#[test]
fn a_sender_gets_no_place_outside_of_the_root_of_a_receiver() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(place.path().join("out")).unwrap();
    std::os::unix::fs::symlink("../out", root.join("way")).unwrap();
    std::os::unix::fs::symlink("a", root.join("within")).unwrap();
    fs::write(root.join("file"), "x").unwrap();
    for good in ["", "a", "a/b", "new", "a/b/new"] {
        let below = match good {
            "" => TreePath::root(),
            good => path(good),
        };
        assert_eq!(asked_for(&root, below), Ok(()), "{good}");
        assert!(root.join(good).is_dir(), "{good}");
    }
    for bad in [
        "..",
        "../out",
        "a/../../out",
        "/tmp",
        "way",
        "way/new",
        "within/new",
        "file",
        "file/new",
        "missing/new",
        ".holdfast-transfer",
        "a/.holdfast-transfer/x",
        "a//b",
        "a/./b",
    ] {
        let answer = asked_for(&root, path(bad));
        assert!(answer.is_err(), "{bad}: {answer:?}");
    }
    assert_eq!(fs::read_dir(place.path().join("out")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}
