//! Toy protocols with planted bugs that lost connections must bring to light: what the tests of a
//! real one do, and the proof that such tests find something.

use crate::{Place, receive};
use holdfast_env::sim::Network;
use holdfast_env::sim::network::Conditions;
use holdfast_env::{Listener, Moment, Stream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request is the number of an operation (1 byte) and an amount (4 bytes); the answer is the
/// number.
const REQUEST_BYTES: usize = 5;
const OPERATIONS: u8 = 4;

/// What is wrong with the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// The server does not remember what it has done, and does it again when it is asked again.
    DoesItTwice,
    /// The server takes the part of a request that arrived for all of it.
    TakesAPart,
    /// The client takes what it has sent for done.
    SentIsDone,
}

/// What the server adds up.
#[derive(Default)]
struct Account {
    sum: u64,
    done_last: u8,
}

fn serve(listener: &dyn Listener, account: &Mutex<Account>, bug: Bug) {
    while let Ok(stream) = listener.accept(Moment::NEVER) {
        while let Some(request) = read_request(stream.as_ref(), bug) {
            let [number, amount @ ..] = request;
            let mut account = account.lock().unwrap();
            if number > account.done_last || bug == Bug::DoesItTwice {
                account.sum += u64::from(u32::from_be_bytes(amount));
                account.done_last = number;
            }
            drop(account);
            if stream.send(&[number], Moment::NEVER).is_err() {
                break;
            }
        }
    }
}

fn read_request(stream: &dyn Stream, bug: Bug) -> Option<[u8; REQUEST_BYTES]> {
    if bug != Bug::TakesAPart {
        let request = receive(stream, REQUEST_BYTES, Moment::NEVER).ok()?;
        return request.try_into().ok();
    }
    let mut request = [0; REQUEST_BYTES];
    let mut done = 0;
    while done < REQUEST_BYTES {
        match stream.receive(&mut request[done..], Moment::NEVER) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    (done > 0).then_some(request)
}

fn amount(number: u8) -> u32 {
    0x0101_0101 * u32::from(number)
}

/// Asks for all operations, on as many connections as it takes.
fn ask(place: &Place, to: &dyn Listener, bug: Bug) {
    let mut next = 1;
    for _ in 0..200 {
        let deadline = place.clock.now().after(Duration::from_millis(20));
        let Ok(stream) = place.left.connect(to.address(), deadline) else {
            continue;
        };
        while next <= OPERATIONS {
            let request = [&[next][..], &amount(next).to_be_bytes()].concat();
            if stream.send(&request, deadline).is_err() {
                break;
            }
            if bug != Bug::SentIsDone && receive(stream.as_ref(), 1, deadline) != Ok(vec![next]) {
                break;
            }
            next += 1;
        }
        if next > OPERATIONS {
            return;
        }
    }
    panic!("two hundred connections and no end");
}

/// Where a connection is cut: from, to, after so many bytes.
type Cut = (&'static str, &'static str, usize);

/// What is wrong with the sum.
fn run(bug: Bug, seed: u64, cuts: &[Cut], cut_one_in: u64) -> Result<(), String> {
    let network = Network::new(seed);
    network.set_conditions(Conditions {
        cut_one_in,
        ..Conditions::default()
    });
    for (from, to, bytes) in cuts {
        network.cut_after(from, to, *bytes);
    }
    let place = Place::simulated(&network);
    let (listener, account) = (place.listen(), Arc::new(Mutex::default()));
    let (accepting, own) = (listener.clone(), account.clone());
    let work = move || serve(accepting.as_ref(), &own, bug);
    let server = place.right.spawn("server", Box::new(work)).unwrap();
    ask(&place, listener.as_ref(), bug);
    listener.close();
    server.join().unwrap();
    let expected: u64 = (1..=OPERATIONS)
        .map(|number| u64::from(amount(number)))
        .sum();
    let sum = account.lock().unwrap().sum;
    if sum == expected {
        Ok(())
    } else {
        Err(format!("{sum:#x} instead of {expected:#x}"))
    }
}

/// Cuts once after each byte in either direction, and says what came of it first.
fn search(bug: Bug) -> Result<usize, (u64, Cut, String)> {
    let mut runs = 0;
    for seed in 0..5 {
        for (from, to) in [("left", "right"), ("right", "left")] {
            for bytes in 0..=usize::from(OPERATIONS) * REQUEST_BYTES {
                let cut = (from, to, bytes);
                run(bug, seed, &[cut], 0).map_err(|what| (seed, cut, what))?;
                runs += 1;
            }
        }
    }
    Ok(runs)
}

#[test]
fn a_correct_protocol_passes() {
    assert_eq!(search(Bug::None), Ok(5 * 2 * 21));
    for seed in 0..100 {
        assert_eq!(run(Bug::None, seed, &[], 6), Ok(()), "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_found_and_replays() {
    for bug in [Bug::DoesItTwice, Bug::TakesAPart, Bug::SentIsDone] {
        assert_eq!(run(bug, 0, &[], 0), Ok(()), "{bug:?} works on a good day");
        let (seed, cut, what) = search(bug).expect_err("a bug");
        println!("{bug:?}: seed {seed}, {cut:?}: {what}");
        assert_eq!(run(bug, seed, &[cut], 0), Err(what));
    }
}
