//! The contract of `Net`, `Listener` and `Stream`.

use crate::{Place, drain, receive};
use holdfast_env::errno::Errno;
use holdfast_env::{Address, Bell, Moment, Rng, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a host answers that has no such address.
pub(crate) const NO_SUCH_ADDRESS: Errno = Errno::ADDRNOTAVAIL;

pub(crate) type Case = fn(&Place);

pub(crate) const ALL: &[(&str, Case)] = &[
    ("bytes arrive in order in both directions", both_directions),
    ("both ends may send more than fits at once", both_at_once),
    ("connections keep their bytes apart", apart),
    ("after a finish everything arrives, then an end", finished),
    ("whoever has finished sends no more", finished_sender),
    ("a missed deadline loses nothing", goes_on),
    ("with a deadline that has passed nobody waits", no_wait),
    ("nobody listens: refused", refused),
    (
        "an address has one listener, until it is closed",
        one_listener,
    ),
    (
        "a closed listener wakes and loses who waits",
        closed_listener,
    ),
    ("a closed stream wakes who waits", closed_stream),
    ("a dropped stream ends after what it sent", dropped),
    (
        "a stream dropped with unread bytes is a lost connection",
        lost,
    ),
    ("nothing follows a send that failed", gap),
    ("a new connection has no bytes of an earlier one", fresh),
    (
        "nothing to send is sent, nothing to fill is refused",
        nothing,
    ),
    ("ends know where they are", addresses),
    ("a thread's panic reaches who joins it", panics),
    ("a ring wakes who waits, and none is missed", rings),
    (
        "a bell that has rung is not waited for, one that has not only to the deadline",
        silence,
    ),
];

fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Sends in pieces of all sizes.
fn send_in_pieces(stream: &dyn Stream, data: &[u8], deadline: Moment) {
    let mut left = data;
    let mut rng = Rng::new(data.len() as u64);
    while !left.is_empty() {
        let (piece, rest) = left.split_at(rng.index(9000).min(left.len()));
        stream.send(piece, deadline).unwrap();
        left = rest;
    }
}

pub(crate) fn both_directions(place: &Place) {
    let (left, right) = place.pair();
    let deadline = place.soon();
    let work = move || {
        let (asked, end) = drain(right.as_ref(), deadline);
        assert_eq!(end, Ok(()));
        send_in_pieces(right.as_ref(), &asked, deadline);
    };
    let server = place.right.spawn("server", Box::new(work)).unwrap();
    let question = noise(1, 200_000);
    send_in_pieces(left.as_ref(), &question, deadline);
    left.finish().unwrap();
    let (answer, end) = drain(left.as_ref(), deadline);
    assert_eq!(end, Ok(()));
    assert!(answer == question);
    server.join().unwrap();
}

fn both_at_once(place: &Place) {
    let bytes = place.plenty;
    let plenty = move |seed: u64| noise(seed, 50_001).repeat(bytes / 50_000);
    let (left, right) = place.pair();
    let deadline = place.soon();
    let mut senders = Vec::new();
    for (seed, stream) in [(1, &left), (2, &right)] {
        let stream = stream.clone();
        let work = move || {
            stream.send(&plenty(seed), deadline).unwrap();
            stream.finish().unwrap();
        };
        senders.push(place.left.spawn("sender", Box::new(work)).unwrap());
    }
    let work = move || {
        let (received, end) = drain(right.as_ref(), deadline);
        assert!(end == Ok(()) && received == plenty(1));
    };
    let receiver = place.right.spawn("receiver", Box::new(work)).unwrap();
    let (received, end) = drain(left.as_ref(), deadline);
    assert!(end == Ok(()) && received == plenty(2));
    for task in senders.into_iter().chain([receiver]) {
        task.join().unwrap();
    }
}

fn apart(place: &Place) {
    const CLIENTS: u64 = 8;
    let listener = place.listen();
    let (to, deadline) = (listener.address().clone(), place.soon());
    let right = place.right.clone();
    let work = move || {
        let mut servers = Vec::new();
        for _ in 0..CLIENTS {
            let stream = listener.accept(deadline).unwrap();
            let work = move || {
                let (asked, end) = drain(stream.as_ref(), deadline);
                assert_eq!(end, Ok(()));
                stream.send(&asked, deadline).unwrap();
            };
            servers.push(right.spawn("connection", Box::new(work)).unwrap());
        }
        for server in servers {
            server.join().unwrap();
        }
    };
    let mut tasks = vec![place.right.spawn("server", Box::new(work)).unwrap()];
    for seed in 0..CLIENTS {
        let (net, to) = (place.left.clone(), to.clone());
        let work = move || {
            let stream = net.connect(&to, deadline).unwrap();
            let question = noise(seed, 20_000 + seed as usize);
            send_in_pieces(stream.as_ref(), &question, deadline);
            stream.finish().unwrap();
            let (answer, end) = drain(stream.as_ref(), deadline);
            assert!(end == Ok(()) && answer == question);
        };
        tasks.push(place.left.spawn("client", Box::new(work)).unwrap());
    }
    for task in tasks {
        task.join().unwrap();
    }
}

pub(crate) fn finished(place: &Place) {
    let (left, right) = place.pair();
    left.send(b"question", place.soon()).unwrap();
    left.finish().unwrap();
    let (received, end) = drain(right.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b"question"[..], Ok(())));
    let again = right.receive(&mut [0; 8], place.soon());
    assert_eq!(again, Ok(0), "an end stays an end");
    right.send(b"answer", place.soon()).unwrap();
    assert_eq!(receive(left.as_ref(), 6, place.soon()).unwrap(), b"answer");
}

fn finished_sender(place: &Place) {
    let (left, right) = place.pair();
    left.finish().unwrap();
    assert_eq!(left.send(b"x", place.soon()), Err(Errno::CANCELED));
    assert_eq!(left.finish(), Err(Errno::CANCELED));
    right.send(b"on", place.soon()).unwrap();
    assert_eq!(receive(left.as_ref(), 2, place.soon()).unwrap(), b"on");
    assert_eq!(drain(right.as_ref(), place.soon()), (Vec::new(), Ok(())));
}

pub(crate) fn goes_on(place: &Place) {
    let listener = place.listen();
    let early = listener.accept(place.shortly());
    assert_eq!(early.err(), Some(Errno::TIMEDOUT));
    let left = place.connect(listener.as_ref());
    let right = listener.accept(place.soon()).unwrap();
    let mut buffer = [0; 8];
    for piece in [b"one", b"two"] {
        let early = right.receive(&mut buffer, place.shortly());
        assert_eq!(early, Err(Errno::TIMEDOUT));
        left.send(piece, place.soon()).unwrap();
        assert_eq!(receive(right.as_ref(), 3, place.soon()).unwrap(), piece);
    }
}

fn no_wait(place: &Place) {
    let past = Moment(0);
    let listener = place.listen();
    assert_eq!(listener.accept(past).err(), Some(Errno::TIMEDOUT));
    let left = place.connect(listener.as_ref());
    let right = listener.accept(place.soon()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(right.receive(&mut buffer, past), Err(Errno::TIMEDOUT));
    left.send(b"room", past).unwrap();
    assert_eq!(receive(right.as_ref(), 4, place.soon()).unwrap(), b"room");
}

fn refused(place: &Place) {
    let listener = place.listen();
    let to = listener.address().clone();
    drop(listener);
    let answer = place.left.connect(&to, place.soon());
    assert_eq!(answer.err(), Some(Errno::CONNREFUSED));
}

fn one_listener(place: &Place) {
    let first = place.listen();
    let second = place.right.listen(first.address());
    assert_eq!(second.err(), Some(Errno::ADDRINUSE));
    // A connection of the first does not keep the address.
    let left = place.connect(first.as_ref());
    let right = first.accept(place.soon()).unwrap();
    first.close();
    let second = place.right.listen(first.address()).unwrap();
    assert_eq!(second.address(), first.address());
    first.close();
    drop(first);
    let left_again = place.connect(second.as_ref());
    let right_again = second.accept(place.soon()).unwrap();
    left.send(b"first", place.soon()).unwrap();
    left_again.send(b"again", place.soon()).unwrap();
    for (stream, sent) in [(&right, b"first"), (&right_again, b"again")] {
        assert_eq!(receive(stream.as_ref(), 5, place.soon()).unwrap(), sent);
    }
    let foreign = Address::new(&place.foreign, 0);
    let foreign = place.right.listen(&foreign);
    assert_eq!(foreign.err(), Some(NO_SUCH_ADDRESS));
}

pub(crate) fn closed_listener(place: &Place) {
    let listener = place.listen();
    let (waiting, deadline) = (listener.clone(), place.soon());
    let work = move || {
        let mut first = waiting.accept(deadline);
        if let Ok(stream) = &first {
            stream.send(b"woken", deadline).unwrap();
            first = waiting.accept(deadline);
        }
        assert_eq!(first.err(), Some(Errno::CANCELED));
    };
    let task = place.right.spawn("waiting", Box::new(work)).unwrap();
    let left = place.connect(listener.as_ref());
    listener.close();
    // Whether it was accepted before is chance.
    let (received, end) = drain(left.as_ref(), deadline);
    match end {
        Ok(()) => assert_eq!(received, b"woken"),
        Err(errno) => assert_eq!((&received[..], errno), (&b""[..], Errno::CONNRESET)),
    }
    task.join().unwrap();
    let answer = listener.accept(place.soon());
    assert_eq!(answer.err(), Some(Errno::CANCELED));

    let listener = place.listen();
    let lost = place.connect(listener.as_ref());
    listener.close();
    let (received, end) = drain(lost.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b""[..], Err(Errno::CONNRESET)));
}

pub(crate) fn closed_stream(place: &Place) {
    let (left, right) = place.pair();
    let deadline = place.soon();
    let mut tasks = Vec::new();
    let waiting = left.clone();
    let work = move || {
        let answer = waiting.receive(&mut [0; 8], deadline);
        assert_eq!(answer, Err(Errno::CANCELED));
    };
    tasks.push(place.left.spawn("receiver", Box::new(work)).unwrap());
    let (waiting, plenty) = (left.clone(), place.plenty);
    let work = move || {
        let piece = vec![0; plenty / 10];
        let failed = (0..100).find_map(|_| waiting.send(&piece, deadline).err());
        assert_eq!(failed, Some(Errno::CANCELED));
    };
    tasks.push(place.left.spawn("sender", Box::new(work)).unwrap());
    // The sender is at work.
    receive(right.as_ref(), 1, deadline).unwrap();
    left.close();
    for task in tasks {
        task.join().unwrap();
    }
    assert_eq!(left.receive(&mut [0; 8], deadline), Err(Errno::CANCELED));
    assert_eq!(left.send(b"x", deadline), Err(Errno::CANCELED));
    assert_eq!(left.finish(), Err(Errno::CANCELED));
    left.close();
    let (received, end) = drain(right.as_ref(), deadline);
    assert!(received.iter().all(|byte| *byte == 0));
    assert_eq!(end, Ok(()));
}

pub(crate) fn dropped(place: &Place) {
    let (left, right) = place.pair();
    left.send(b"last words", place.soon()).unwrap();
    drop(left);
    let (received, end) = drain(right.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b"last words"[..], Ok(())));
    // The first goes out; the answer to it is that nobody is there.
    let deadline = place.soon();
    let failed = (0..1_000_000).find_map(|_| right.send(b"hello?", deadline).err());
    assert_eq!(failed, Some(Errno::CONNRESET));
    assert_eq!(right.send(b"x", place.soon()), Err(Errno::CONNRESET));
    assert_eq!(right.finish(), Err(Errno::CONNRESET));
}

pub(crate) fn lost(place: &Place) {
    // Whether anything unread has arrived when the stream is dropped is chance.
    let seen = (0..100).any(|_| {
        let (left, right) = place.pair();
        right.send(&[7; 3000], place.soon()).unwrap();
        left.send(b"half a mess", place.soon()).unwrap();
        receive(left.as_ref(), 1, place.soon()).unwrap();
        drop(left);
        let (received, end) = drain(right.as_ref(), place.soon());
        assert!(b"half a mess".starts_with(&received), "{received:?}");
        if end == Ok(()) {
            return false;
        }
        for _ in 0..3 {
            assert_eq!(end, Err(Errno::CONNRESET));
            let again = right.receive(&mut [0; 8], place.soon());
            assert_eq!(again, Err(Errno::CONNRESET), "once lost, always lost");
            assert_eq!(right.send(b"x", place.soon()), Err(Errno::CONNRESET));
        }
        true
    });
    assert!(seen, "a lost connection looks like an end");
}

pub(crate) fn gap(place: &Place) {
    let (left, right) = place.pair();
    let piece = noise(3, place.plenty / 10);
    let whole = (0..100).find(|_| {
        let sent = left.send(&piece, place.shortly());
        assert!(matches!(sent, Ok(()) | Err(Errno::TIMEDOUT)), "{sent:?}");
        sent.is_err()
    });
    let whole = whole.expect("nobody reads, so that nothing fits in the end");
    let reader = right.clone();
    let deadline = place.soon();
    let work = move || {
        let (received, end) = drain(reader.as_ref(), deadline);
        assert_eq!(end, Ok(()));
        assert!(received.len() / piece.len() <= whole, "more than was sent");
        let mut pieces = received.chunks(piece.len());
        assert!(pieces.all(|received| piece.starts_with(received)));
    };
    let task = place.right.spawn("reader", Box::new(work)).unwrap();
    // Room comes back while the reader reads.
    for _ in 0..3 {
        assert_eq!(left.send(b"x", place.soon()), Err(Errno::TIMEDOUT));
        assert_eq!(left.finish(), Err(Errno::TIMEDOUT));
    }
    drop(left);
    task.join().unwrap();
}

pub(crate) fn fresh(place: &Place) {
    let listener = place.listen();
    for message in [&b"first"[..], b"", b"second and last"] {
        let left = place.connect(listener.as_ref());
        let right = listener.accept(place.soon()).unwrap();
        left.send(message, place.soon()).unwrap();
        drop(left);
        let (received, end) = drain(right.as_ref(), place.soon());
        assert_eq!((&received[..], end), (message, Ok(())));
    }
}

fn nothing(place: &Place) {
    let (left, right) = place.pair();
    left.send(b"", place.soon()).unwrap();
    left.send(b"x", place.soon()).unwrap();
    assert_eq!(right.receive(&mut [], place.soon()), Err(Errno::INVAL));
    assert_eq!(receive(right.as_ref(), 1, place.soon()).unwrap(), b"x");
}

fn addresses(place: &Place) {
    let listener = place.listen();
    assert_eq!(listener.address().host, place.host);
    assert_ne!(listener.address().port, 0);
    let left = place.connect(listener.as_ref());
    let right = listener.accept(place.soon()).unwrap();
    assert_eq!(left.peer(), listener.address());
    let text = right.peer().to_string();
    assert_eq!(text.parse().as_ref(), Ok(right.peer()));
    assert_ne!(right.peer().port, 0);
}

fn panics(place: &Place) {
    let work = || std::panic::panic_any("planned");
    let task = place.right.spawn("panics", Box::new(work)).unwrap();
    let payload = task.join().unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"planned"));
}

/// Two threads count to a hundred in turn, each waiting for the other.
fn rings(place: &Place) {
    const LAST: u64 = 100;
    let (bell, number) = (place.right.bell(), Arc::new(AtomicU64::new(0)));
    let count = |bell: Arc<dyn Bell>, number: Arc<AtomicU64>, mine: u64, deadline: Moment| {
        loop {
            let seen = bell.count();
            let now = number.load(Ordering::Acquire);
            if now >= LAST {
                return;
            }
            if now % 2 == mine {
                number.store(now + 1, Ordering::Release);
                bell.ring();
                // Rung before the wait begins: it must not be missed.
                assert_eq!(bell.wait(seen, deadline), Ok(()));
            } else {
                assert_eq!(bell.wait(seen, deadline), Ok(()));
            }
        }
    };
    let deadline = place.soon();
    let (own, shared) = (bell.clone(), number.clone());
    let work = move || count(own, shared, 1, deadline);
    let task = place.right.spawn("odd", Box::new(work)).unwrap();
    count(bell.clone(), number.clone(), 0, deadline);
    bell.ring();
    task.join().unwrap();
    assert_eq!(number.load(Ordering::Acquire), LAST);
}

pub(crate) fn silence(place: &Place) {
    let bell = place.right.bell();
    bell.ring();
    assert_eq!(bell.wait(0, Moment(0)), Ok(()), "rung already");
    assert_eq!(bell.wait(1, place.shortly()), Err(Errno::TIMEDOUT));
}
