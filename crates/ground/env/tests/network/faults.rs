//! What only a simulated network can be asked for.

use crate::{Place, drain, receive};
use holdfast_env::errno::Errno;
use holdfast_env::sim::Network;
use holdfast_env::sim::network::Conditions;
use holdfast_env::{Address, Clock, Moment, Net};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A case that plays with the network while the hosts of the place use it.
pub(crate) type Case = fn(&Network, &Place);

pub(crate) const ALL: &[(&str, Case)] = &[
    ("nobody connects through a partition", unreachable),
    (
        "what is sent into a partition arrives once, after it",
        partition,
    ),
    ("one way may be closed and the other open", one_way),
    (
        "a cut loses what is sent later, and both ends learn of it",
        cut,
    ),
    (
        "a killed process's connections end, and its port is free",
        killed,
    ),
    (
        "a host without power is silent, then does not know anybody",
        crashed,
    ),
];

#[test]
fn every_fault_is_as_described_whatever_the_seed() {
    for seed in 0..100 {
        for (name, case) in ALL {
            println!("seed {seed}: {name}");
            let network = Network::new(seed);
            network.set_conditions(Conditions {
                segment_bytes_max: [3, 1460][seed as usize % 2],
                ..Conditions::default()
            });
            case(&network, &Place::simulated(&network));
        }
    }
}

pub(crate) fn unreachable(network: &Network, place: &Place) {
    let listener = place.listen();
    network.part("left", "right");
    let deadline = place.soon();
    let answer = place.left.connect(listener.address(), deadline);
    assert_eq!(answer.err(), Some(Errno::TIMEDOUT));
    assert_eq!(place.clock.now(), deadline, "not earlier and not later");
    let early = listener.accept(place.shortly());
    assert_eq!(early.err(), Some(Errno::TIMEDOUT));
    network.heal("left", "right");
    place.connect(listener.as_ref());
    let nowhere = place
        .left
        .connect(&Address::new("nowhere", 1), place.soon());
    assert_eq!(nowhere.err(), Some(Errno::HOSTUNREACH));
}

pub(crate) fn partition(network: &Network, place: &Place) {
    let (left, right) = place.pair();
    left.send(b"before ", place.soon()).unwrap();
    assert_eq!(
        receive(right.as_ref(), 7, place.soon()).unwrap(),
        b"before "
    );
    network.part("left", "right");
    left.send(b"in ", place.soon()).unwrap();
    right.send(b"back", place.soon()).unwrap();
    for stream in [&left, &right] {
        let answer = stream.receive(&mut [0; 16], place.soon());
        assert_eq!(answer, Err(Errno::TIMEDOUT));
    }
    network.heal("left", "right");
    left.send(b"after", place.soon()).unwrap();
    left.finish().unwrap();
    let (received, end) = drain(right.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b"in after"[..], Ok(())));
    assert_eq!(receive(left.as_ref(), 4, place.soon()).unwrap(), b"back");
}

fn one_way(network: &Network, place: &Place) {
    let (left, right) = place.pair();
    network.set_way("left", "right", false);
    left.send(b"lost for now", place.soon()).unwrap();
    right.send(b"heard", place.soon()).unwrap();
    assert_eq!(receive(left.as_ref(), 5, place.soon()).unwrap(), b"heard");
    let answer = right.receive(&mut [0; 16], place.soon());
    assert_eq!(answer, Err(Errno::TIMEDOUT));
    network.set_way("left", "right", true);
    let late = receive(right.as_ref(), 12, place.soon()).unwrap();
    assert_eq!(late, b"lost for now");
}

fn cut(network: &Network, place: &Place) {
    let (left, right) = place.pair();
    left.send(b"on its way", place.soon()).unwrap();
    network.cut("left", "right");
    let sent = left.send(b"later", place.soon());
    assert!(matches!(sent, Ok(()) | Err(Errno::CONNRESET)), "{sent:?}");
    let (received, end) = drain(right.as_ref(), place.soon());
    assert!(b"on its way".starts_with(&received), "{received:?}");
    assert_eq!(end, Err(Errno::CONNRESET));
    let (received, end) = drain(left.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b""[..], Err(Errno::CONNRESET)));
    assert_eq!(left.send(b"x", place.soon()), Err(Errno::CONNRESET));
}

fn killed(network: &Network, place: &Place) {
    let listener = place.listen();
    let left = place.connect(listener.as_ref());
    let right = listener.accept(place.soon()).unwrap();
    let waiting = place.connect(listener.as_ref());
    right.send(b"half a mess", place.soon()).unwrap();
    network.kill("right");
    assert_eq!(right.send(b"age", place.soon()), Err(Errno::NODEV));
    assert_eq!(right.receive(&mut [0; 8], place.soon()), Err(Errno::NODEV));
    assert_eq!(listener.accept(place.soon()).err(), Some(Errno::NODEV));
    let (received, end) = drain(left.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b"half a mess"[..], Ok(())));
    let (received, end) = drain(waiting.as_ref(), place.soon());
    assert_eq!((&received[..], end), (&b""[..], Err(Errno::CONNRESET)));
    let refused = place.left.connect(listener.address(), place.soon());
    assert_eq!(refused.err(), Some(Errno::CONNREFUSED));
    network.host("right").listen(listener.address()).unwrap();
}

fn crashed(network: &Network, place: &Place) {
    let listener = place.listen();
    let left = place.connect(listener.as_ref());
    let listens_only = place.connect(listener.as_ref());
    let right = listener.accept(place.soon()).unwrap();
    right.send(b"last words", place.soon()).unwrap();
    network.crash("right");
    assert_eq!(right.send(b"x", place.soon()), Err(Errno::NODEV));
    let (received, end) = drain(left.as_ref(), place.soon());
    assert!(b"last words".starts_with(&received), "{received:?}");
    assert_eq!(end, Err(Errno::TIMEDOUT), "silence");
    left.send(b"are you there?", place.soon()).unwrap();
    let late = left.receive(&mut [0; 8], place.soon());
    assert_eq!(late, Err(Errno::TIMEDOUT));
    let unreachable = place.left.connect(listener.address(), place.soon());
    assert_eq!(unreachable.err(), Some(Errno::TIMEDOUT));

    let again = network.host("right");
    let lost = left.receive(&mut [0; 8], place.soon());
    assert_eq!(lost, Err(Errno::CONNRESET));
    let late = listens_only.receive(&mut [0; 8], place.soon());
    assert_eq!(late, Err(Errno::TIMEDOUT), "it never asks");
    listens_only.finish().unwrap();
    let lost = listens_only.receive(&mut [0; 8], place.soon());
    assert_eq!(lost, Err(Errno::CONNRESET), "its goodbye is not understood");
    assert_eq!(right.send(b"x", place.soon()), Err(Errno::NODEV));
    again.listen(listener.address()).unwrap();
}

/// Clients and servers that talk at once; what happened when.
fn history(seed: u64) -> Vec<(Moment, String)> {
    let network = Network::new(seed);
    network.set_conditions(Conditions {
        segment_bytes_max: 10,
        cut_one_in: 40,
        ..Conditions::default()
    });
    let (left, right) = (network.host("left"), network.host("right"));
    let listener = right.listen(&Address::new("right", 1)).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let (events, clock) = (events.clone(), network.clock());
        move |what: String| events.lock().unwrap().push((clock.now(), what))
    };
    let mut tasks = Vec::new();
    for client in 0..3 {
        let (net, clock, note) = (left.clone(), network.clock(), note.clone());
        let mut rng = network.rng();
        let work = move || {
            for round in 0..5 {
                let patience = Duration::from_micros(rng.below(10_000));
                let deadline = clock.now().after(patience);
                let talk = net.connect(&Address::new("right", 1), deadline);
                let talk = talk.and_then(|stream| {
                    stream.send(&[client; 60], deadline)?;
                    stream.finish()?;
                    Ok(drain(stream.as_ref(), deadline))
                });
                note(format!("client {client}, {round}: {talk:?}"));
            }
        };
        tasks.push(left.spawn("client", Box::new(work)).unwrap());
    }
    let accepting = listener.clone();
    let work = move || {
        while let Ok(stream) = accepting.accept(Moment::NEVER) {
            let (received, end) = drain(stream.as_ref(), Moment::NEVER);
            note(format!("server: {} {end:?}", received.len()));
            let sent = stream.send(&received, Moment::NEVER);
            note(format!("server: {sent:?}"));
        }
    };
    let server = right.spawn("server", Box::new(work)).unwrap();
    for task in tasks {
        task.join().unwrap();
    }
    listener.close();
    server.join().unwrap();
    let events = events.lock().unwrap();
    events.clone()
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    let histories: Vec<_> = (0..20).map(history).collect();
    for (seed, known) in (0..).zip(&histories) {
        assert_eq!(&history(seed), known, "seed {seed}");
    }
    let different: BTreeSet<_> = histories.iter().collect();
    assert_eq!(different.len(), histories.len());
    let text = format!("{histories:?}");
    for outcome in ["[0, 0", "ConnectionReset", "TimedOut"] {
        assert!(text.contains(outcome), "no seed shows {outcome}");
    }
}

#[test]
fn threads_take_their_turns_in_any_order_by_seed() {
    let order = |seed| {
        let network = Network::new(seed);
        let host = network.host("host");
        let order = Arc::new(Mutex::new(Vec::new()));
        let start = |number: u8| {
            let order = order.clone();
            let work = move || order.lock().unwrap().push(number);
            host.spawn("thread", Box::new(work)).unwrap()
        };
        for task in [start(1), start(2), start(3)] {
            task.join().unwrap();
        }
        let order = order.lock().unwrap();
        order.clone()
    };
    let orders: BTreeSet<Vec<u8>> = (0..100).map(order).collect();
    assert_eq!(orders.len(), 6, "{orders:?}");
}

#[test]
fn connections_overtake_each_other_by_seed() {
    let first = |seed| {
        let network = Network::new(seed);
        let place = Place::simulated(&network);
        let (early, late) = (place.pair(), place.pair());
        early.0.send(b"early", place.soon()).unwrap();
        late.0.send(b"late", place.soon()).unwrap();
        let mut waiting = Vec::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (name, (_, right)) in [("early", early), ("late", late)] {
            let (order, deadline) = (order.clone(), place.soon());
            let work = move || {
                receive(right.as_ref(), name.len(), deadline).unwrap();
                order.lock().unwrap().push(name);
            };
            waiting.push(place.right.spawn(name, Box::new(work)).unwrap());
        }
        for task in waiting {
            task.join().unwrap();
        }
        let order = order.lock().unwrap();
        order[0]
    };
    let firsts: BTreeSet<_> = (0..40).map(first).collect();
    assert_eq!(firsts.len(), 2, "{firsts:?}");
}

#[test]
fn a_message_may_be_cut_after_each_of_its_bytes() {
    const MESSAGE: &[u8] = b"a message of no great length";
    for bytes in 0..=MESSAGE.len() {
        let arrived: BTreeSet<usize> = (0..20)
            .map(|seed| {
                let network = Network::new(seed);
                let place = Place::simulated(&network);
                let (left, right) = place.pair();
                network.cut_after("left", "right", bytes);
                left.send(MESSAGE, place.soon()).unwrap();
                let (received, end) = drain(right.as_ref(), place.soon());
                assert_eq!(received, MESSAGE[..received.len()]);
                assert_eq!(end, Err(Errno::CONNRESET));
                let end = left.receive(&mut [0; 8], place.soon());
                assert_eq!(end, Err(Errno::CONNRESET));
                // The plan is carried out.
                let (left, right) = place.pair();
                left.send(MESSAGE, place.soon()).unwrap();
                let again = receive(right.as_ref(), MESSAGE.len(), place.soon());
                assert_eq!(again.unwrap(), MESSAGE);
                received.len()
            })
            .collect();
        assert_eq!(arrived.last(), Some(&bytes), "{arrived:?}");
    }
}

#[test]
fn what_waits_for_ever_is_reported() {
    let network = Network::new(1);
    let place = Place::simulated(&network);
    let listener = place.listen();
    let work = move || drop(listener.accept(Moment::NEVER));
    let task = place.right.spawn("server", Box::new(work)).unwrap();
    let joined = catch_unwind(AssertUnwindSafe(|| task.join()));
    let payload = joined.expect_err("nobody connects");
    let message = payload.downcast_ref::<&str>();
    assert!(message.is_some_and(|text| text.starts_with("every thread waits")));
}

#[test]
fn a_sleeper_wakes_at_its_moment_while_others_talk() {
    let network = Network::new(3);
    let place = Place::simulated(&network);
    let (left, right) = place.pair();
    let (clock, deadline) = (network.clock(), Moment(u64::MAX / 2));
    let work = move || {
        for _ in 0..10 {
            clock.sleep_until(clock.now().after(Duration::from_secs(3600)));
            left.send(b"tick", deadline).unwrap();
        }
    };
    let task = place.left.spawn("ticker", Box::new(work)).unwrap();
    for hour in 1..=10 {
        receive(right.as_ref(), 4, deadline).unwrap();
        let since = network.clock().now().since(Moment(0)).as_secs();
        assert_eq!(since / 3600, hour);
    }
    task.join().unwrap();
}
