use super::*;
use codec::crc32c;
use env::sim::network::Conditions;
use env::sim::{Harm, Network, harmed};
use env::{Address, Clock, Listener, Rng};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// What is asked: a number, and bytes that follow from it.
const OPERATIONS: u64 = 4;

fn noise(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 20 + number as usize * 7];
    Rng::new(number).fill(&mut bytes);
    bytes
}

/// Answers each request with the checksum of what it got, on as many connections as come.
fn serve(listener: &dyn Listener, net: Arc<dyn Net>, harm: Harm, got: &Mutex<Vec<Vec<u8>>>) {
    let mut harm = harm;
    while let Ok(stream) = listener.accept(Moment::NEVER) {
        // Only the first connection is harmed.
        let stream = harmed(
            stream,
            std::mem::replace(&mut harm, Harm::None),
            Arc::default(),
        );
        let limits = Limits::default();
        let connection = Connection::start(stream, net.as_ref(), Role::Server, limits).unwrap();
        while let Ok(channel) = connection.accept(Moment::NEVER) {
            let Ok(Some(request)) = channel.receive(Moment::NEVER) else {
                continue;
            };
            let sum = crc32c(&request.bulk);
            got.lock().push(request.bulk);
            let _lost = channel.send(&request.body, &sum.to_le_bytes(), Moment::NEVER);
            let _lost = channel.finish();
        }
    }
}

struct Outcome {
    /// Requests that came to the server and were never sent, or answers that do not fit.
    wrong: usize,
    connections: usize,
}

fn run(seed: u64, cut: Option<(&str, &str, usize)>, server: Harm, client: Harm) -> Outcome {
    let network = Network::new(seed);
    if let Some((from, to, bytes)) = cut {
        network.cut_after(from, to, bytes);
    }
    let (left, right) = (network.host("left"), network.host("right"));
    let clock = network.clock();
    let listener = right.listen(&Address::new("right", 0)).unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let (accepting, own, net) = (listener.clone(), got.clone(), right.clone());
    let work = move || serve(accepting.as_ref(), net, server, &own);
    let task = right.spawn("server", Box::new(work)).unwrap();
    let mut outcome = Outcome {
        wrong: 0,
        connections: 0,
    };
    let mut next = 0;
    let mut harm = client;
    while next < OPERATIONS {
        outcome.connections += 1;
        assert!(outcome.connections < 100, "no end");
        let deadline = clock.now().after(Duration::from_secs(1));
        let Ok(stream) = left.connect(listener.address(), deadline) else {
            continue;
        };
        let stream = harmed(
            stream,
            std::mem::replace(&mut harm, Harm::None),
            Arc::default(),
        );
        let role = Role::Client;
        let connection = Connection::start(stream, left.as_ref(), role, Limits::default()).unwrap();
        while next < OPERATIONS {
            let (body, bulk) = (next.to_le_bytes(), noise(next));
            let Ok(answer) = connection.call(&body, &bulk, deadline) else {
                break;
            };
            if answer.body != body || answer.bulk != crc32c(&bulk).to_le_bytes() {
                outcome.wrong += 1;
            }
            next += 1;
        }
    }
    listener.close();
    task.join().unwrap();
    let sent: Vec<Vec<u8>> = (0..OPERATIONS).map(noise).collect();
    outcome.wrong += got.lock().iter().filter(|got| !sent.contains(got)).count();
    outcome
}

#[test]
fn a_connection_cut_after_any_byte_is_made_up_for_by_another() {
    let mut cut_short = 0;
    for (from, to) in [("left", "right"), ("right", "left")] {
        for bytes in 0..500 {
            let seed = bytes as u64;
            let outcome = run(seed, Some((from, to, bytes)), Harm::None, Harm::None);
            assert_eq!(outcome.wrong, 0, "seed {seed}, {from} after {bytes}");
            cut_short += usize::from(outcome.connections > 1);
        }
    }
    assert!(cut_short > 800, "most cuts fall into the conversation");
}

#[test]
fn a_bit_flipped_on_the_way_is_never_taken_for_data() {
    let mut found = 0;
    for at in 0..450 {
        for (server, client) in [(Harm::Flip(at), Harm::None), (Harm::None, Harm::Flip(at))] {
            let outcome = run(at, None, server, client);
            assert_eq!(outcome.wrong, 0, "{server:?} {client:?}");
            found += usize::from(outcome.connections > 1);
        }
    }
    assert!(
        found > 700,
        "{found} of 900 flips fall into the conversation"
    );
}

/// Sends more than a window both ways at once, and reads only between.
#[test]
fn both_sides_may_send_more_than_a_window_at_once() {
    const PIECES: usize = 12;
    let network = Network::new(3);
    network.set_conditions(Conditions {
        segment_bytes_max: 64 << 10,
        ..Conditions::default()
    });
    let (left, right) = (network.host("left"), network.host("right"));
    let listener = right.listen(&Address::new("right", 0)).unwrap();
    let deadline = network.clock().now().after(Duration::from_secs(600));
    let exchange = move |channel: &Channel, net: Arc<dyn Net>, mine: u8| {
        let other = Arc::new(Mutex::new(0));
        let (shared, id) = (channel.shared.clone(), channel.id);
        let sending = move || {
            // The same stream, held by another thread that only sends.
            let channel = std::mem::ManuallyDrop::new(Channel { shared, id });
            for number in 0..PIECES {
                let bulk = vec![mine; 1 << 20];
                channel.send(&[number as u8], &bulk, deadline).unwrap();
            }
            channel.finish().unwrap();
        };
        let task = net.spawn("sender", Box::new(sending)).unwrap();
        while let Some(message) = channel.receive(deadline).unwrap() {
            assert!(message.bulk.iter().all(|byte| *byte != mine));
            *other.lock() += message.bulk.len();
        }
        task.join().unwrap();
        assert_eq!(*other.lock(), PIECES << 20);
    };
    let (accepting, net) = (listener.clone(), right.clone());
    let work = move || {
        let stream = accepting.accept(deadline).unwrap();
        let role = Role::Server;
        let connection = Connection::start(stream, net.as_ref(), role, Limits::default()).unwrap();
        let channel = connection.accept(deadline).unwrap();
        channel.receive(deadline).unwrap();
        exchange(&channel, net, 1);
        drop(channel);
        connection.close(deadline).unwrap();
    };
    let task = right.spawn("server", Box::new(work)).unwrap();
    let stream = left.connect(listener.address(), deadline).unwrap();
    let role = Role::Client;
    let connection = Connection::start(stream, left.as_ref(), role, Limits::default()).unwrap();
    let channel = connection.open(b"go", b"", deadline).unwrap();
    exchange(&channel, left.clone(), 2);
    drop(channel);
    connection.close(deadline).unwrap();
    task.join().unwrap();
}

/// A stream that counts the calls that send.
struct Counted {
    stream: Arc<dyn Stream>,
    sends: Arc<AtomicUsize>,
}

impl Stream for Counted {
    fn peer(&self) -> &Address {
        self.stream.peer()
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> env::Result<usize> {
        self.stream.receive(buffer, deadline)
    }

    fn send(&self, data: &[u8], deadline: Moment) -> env::Result<()> {
        self.sends.fetch_add(1, Ordering::Relaxed);
        self.stream.send(data, deadline)
    }

    fn finish(&self) -> env::Result<()> {
        self.stream.finish()
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// What is exchanged is gathered, and goes before this side waits for the answer to it.
#[test]
fn small_messages_go_together_and_before_anybody_waits() {
    const MESSAGES: usize = 2000;
    let network = Network::new(5);
    let (left, right) = (network.host("left"), network.host("right"));
    let listener = right.listen(&Address::new("right", 0)).unwrap();
    let deadline = network.clock().now().after(Duration::from_secs(600));
    let (accepting, net) = (listener.clone(), right.clone());
    let work = move || {
        let stream = accepting.accept(deadline).unwrap();
        let role = Role::Server;
        let connection = Connection::start(stream, net.as_ref(), role, Limits::default()).unwrap();
        let channel = connection.accept(deadline).unwrap();
        for _ in 0..=MESSAGES {
            channel.receive(deadline).unwrap().unwrap();
        }
        channel.send(b"all", b"", deadline).unwrap();
        channel.finish().unwrap();
        assert_eq!(channel.receive(deadline), Ok(None));
        drop(channel);
        connection.close(deadline).unwrap();
    };
    let task = right.spawn("server", Box::new(work)).unwrap();
    let sends = Arc::new(AtomicUsize::new(0));
    let stream = Arc::new(Counted {
        stream: left.connect(listener.address(), deadline).unwrap(),
        sends: sends.clone(),
    });
    let role = Role::Client;
    let connection = Connection::start(stream, left.as_ref(), role, Limits::default()).unwrap();
    let channel = connection.open(b"go", b"", deadline).unwrap();
    for _ in 0..MESSAGES {
        assert_eq!(channel.exchange(&[7; 100], b"", deadline), Ok(None));
        assert!(channel.try_receive().is_err_and(|error| error.is_timeout()));
    }
    let answer = channel.receive(deadline).unwrap().unwrap();
    assert_eq!(answer.body, b"all");
    channel.finish().unwrap();
    drop(channel);
    connection.close(deadline).unwrap();
    task.join().unwrap();
    // 2000 messages of 100 bytes and a header are three times what is gathered.
    let sends = sends.load(Ordering::Relaxed);
    assert!(sends < 20, "{sends} sends");
}

#[test]
fn who_is_refused_is_told_why() {
    let network = Network::new(1);
    let (left, right) = (network.host("left"), network.host("right"));
    let listener = right.listen(&Address::new("right", 0)).unwrap();
    let deadline = network.clock().now().after(Duration::from_secs(10));
    let (accepting, net) = (listener.clone(), right.clone());
    let work = move || {
        let stream = accepting.accept(deadline).unwrap();
        let role = Role::Server;
        let connection = Connection::start(stream, net.as_ref(), role, Limits::default()).unwrap();
        connection.refuse("no room today");
        let _ended = connection.close(deadline);
    };
    let task = right.spawn("server", Box::new(work)).unwrap();
    let stream = left.connect(listener.address(), deadline).unwrap();
    let role = Role::Client;
    let connection = Connection::start(stream, left.as_ref(), role, Limits::default()).unwrap();
    let error = connection.call(b"", b"", deadline).unwrap_err();
    assert_eq!(error, RpcError::Refused("no room today".to_owned()));
    drop(connection);
    task.join().unwrap();
}
