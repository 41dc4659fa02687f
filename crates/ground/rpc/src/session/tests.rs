use super::plant::Plant;
use super::*;
use env::Rng;
use proptest::prelude::*;

/// A client and a server that have heard each other's hello.
fn pair(plant: Plant) -> (Session, Session) {
    let limits = Limits::default();
    let mut client = Session::new(Role::Client, limits);
    let mut server = Session::new(Role::Server, limits).planted(plant);
    server.feed(&client.take_output()).unwrap();
    client.feed(&server.take_output()).unwrap();
    assert_eq!((client.version(), server.version()), (Some(1), Some(1)));
    (client, server)
}

/// The frames of `bytes`, each as it is.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let header = header::open(Role::Client, bytes).unwrap();
        let length = HEADER_BYTES + header.body_bytes + header.bulk_bytes;
        let (frame, rest) = bytes.split_at(length);
        found.push(frame.to_vec());
        bytes = rest;
    }
    found
}

/// Everything that a side got on its streams, and whether the last of them was finished.
fn drain(session: &mut Session) -> (Vec<Message>, bool) {
    let mut got = Vec::new();
    let mut finished = false;
    while let Some(id) = session.accept() {
        loop {
            match session.take(id) {
                Ok(Taken::Message(message)) => got.push(message),
                answer => {
                    finished = answer == Ok(Taken::Finished);
                    break;
                }
            }
        }
    }
    (got, finished)
}

/// Five messages on one stream, and what they are.
fn sample(client: &mut Session) -> (Vec<u8>, Vec<Message>) {
    let mut sent = Vec::new();
    for number in 0..5u8 {
        sent.push(Message {
            body: vec![number; 3],
            bulk: vec![number; 20 * usize::from(number)],
        });
    }
    let id = client.open(&sent[0].body, &sent[0].bulk).unwrap().unwrap();
    for message in &sent[1..] {
        let went = client.send(id, &message.body, &message.bulk).unwrap();
        assert_eq!(went, Sent::Yes);
    }
    client.finish(id).unwrap();
    (client.take_output(), sent)
}

#[test]
fn a_request_gets_its_answer() {
    let (mut client, mut server) = pair(Plant::None);
    let id = client.open(b"request", b"bulk").unwrap().unwrap();
    client.finish(id).unwrap();
    server.feed(&client.take_output()).unwrap();
    let there = server.accept().unwrap();
    let request = Message {
        body: b"request".to_vec(),
        bulk: b"bulk".to_vec(),
    };
    assert_eq!(server.take(there), Ok(Taken::Message(request)));
    assert_eq!(server.take(there), Ok(Taken::Finished));
    assert_eq!(server.send(there, b"answer", b""), Ok(Sent::Yes));
    server.finish(there).unwrap();
    client.feed(&server.take_output()).unwrap();
    assert!(matches!(client.take(id), Ok(Taken::Message(_))));
    assert_eq!(client.take(id), Ok(Taken::Finished));
    client.drop_stream(id, 0);
    server.drop_stream(there, 0);
    assert_eq!(client.output_bytes() + server.output_bytes(), 0, "no reset");
}

#[test]
fn every_flipped_bit_loses_the_connection_and_no_wrong_message_is_taken() {
    assert_eq!(wrong_under_flips(Plant::None), 0);
    assert!(wrong_under_flips(Plant::NoPayloadSums) > 0, "planted");
}

/// How many flips let a message through that was not sent.
fn wrong_under_flips(plant: Plant) -> usize {
    let (bytes, sent) = sample(&mut pair(plant).0);
    let mut wrong = 0;
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let (_, mut server) = pair(plant);
        let outcome = server.feed(&bad);
        let (got, _) = drain(&mut server);
        let is_prefix = got.len() <= sent.len() && got == sent[..got.len()];
        if !is_prefix || outcome.is_ok() {
            wrong += 1;
        }
    }
    wrong
}

#[test]
fn a_frame_lost_doubled_or_out_of_order_is_found() {
    assert_eq!(wrong_under_shuffles(Plant::None), 0);
    assert!(wrong_under_shuffles(Plant::NoSequence) > 0, "planted");
}

fn wrong_under_shuffles(plant: Plant) -> usize {
    let (bytes, sent) = sample(&mut pair(plant).0);
    let all = frames(&bytes);
    let mut wrong = 0;
    for at in 0..all.len() {
        let (mut lost, mut doubled, mut swapped) = (all.clone(), all.clone(), all.clone());
        lost.remove(at);
        doubled.insert(at, all[at].clone());
        swapped.swap(at, (at + 1) % all.len());
        for frames in [lost, doubled, swapped] {
            let (_, mut server) = pair(plant);
            let outcome = server.feed(&frames.concat());
            let (got, finished) = drain(&mut server);
            let is_prefix = got.len() <= sent.len() && got == sent[..got.len()];
            // The last frame lost looks like a connection that has not ended yet.
            let unnoticed = outcome.is_ok() && (finished || got != sent);
            if unnoticed || !is_prefix {
                wrong += 1;
            }
        }
    }
    wrong
}

#[test]
fn a_peer_that_ignores_its_credit_is_found() {
    for (plant, found) in [(Plant::None, true), (Plant::NoWindow, false)] {
        let (mut client, mut server) = pair(plant);
        let id = client.open(b"", b"").unwrap().unwrap();
        let bulk = vec![0; BULK_MAX];
        let mut went = 0;
        while client.send(id, b"", &bulk).unwrap() == Sent::Yes {
            server.feed(&client.take_output()).unwrap();
            went += 1;
        }
        assert_eq!(went, 3, "a window of 4 MiB less the headers");
        client.streams.get_mut(&id).unwrap().credit_out = u64::MAX;
        assert_eq!(client.send(id, b"", &bulk), Ok(Sent::Yes));
        assert_eq!(server.feed(&client.take_output()).is_err(), found);
    }
}

#[test]
fn credit_comes_back_as_messages_are_taken() {
    let (mut client, mut server) = pair(Plant::None);
    let id = client.open(b"", b"").unwrap().unwrap();
    let bulk = vec![7; BULK_MAX];
    let mut went = 0;
    for _ in 0..100 {
        while client.send(id, b"", &bulk).unwrap() == Sent::Yes {
            server.feed(&client.take_output()).unwrap();
            went += 1;
        }
        let there = StreamId(1);
        while let Ok(Taken::Message(_)) = server.take(there) {}
        client.feed(&server.take_output()).unwrap();
    }
    assert!(went > 250, "{went}");
}

#[test]
fn what_no_peer_may_do_ends_the_connection() {
    type Act = fn(&mut Session);
    let acts: &[(&str, Act)] = &[
        ("a second hello", |c| {
            let hello = c.ours.clone();
            c.control(Kind::Hello, 0, &hello);
        }),
        ("a message on no stream", |c| {
            c.frame(Kind::Message, 9, b"", b"")
        }),
        ("a stream of the server's numbers", |c| {
            c.frame(Kind::Open, 2, b"", b"");
        }),
        ("a stream opened twice", |c| {
            c.frame(Kind::Open, 1, b"", b"");
            c.frame(Kind::Open, 1, b"", b"");
        }),
        ("too many streams", |c| {
            for number in 0..9 {
                c.frame(Kind::Open, 1 + 2 * number, b"", b"");
            }
        }),
        ("a message after the finish", |c| {
            c.frame(Kind::Open, 1, b"", b"");
            c.frame(Kind::Finish, 1, b"", b"");
            c.frame(Kind::Message, 1, b"", b"");
        }),
        ("bulk bytes in a finish", |c| {
            c.frame(Kind::Open, 1, b"", b"");
            c.frame(Kind::Finish, 1, b"", b"x");
        }),
        ("credit beyond the window", |c| {
            c.frame(Kind::Open, 1, b"", b"");
            c.control(Kind::Credit, 1, &1u32);
        }),
        ("a stream of number zero", |c| {
            c.frame(Kind::Open, 0, b"", b"")
        }),
        ("a body that is none", |c| {
            c.frame(Kind::Open, 1, b"", b"");
            c.frame(Kind::Credit, 1, b"\xff\xff\xff\xff\xff\xff\xff", b"");
        }),
    ];
    for (name, act) in acts {
        let (mut client, mut server) = pair(Plant::None);
        act(&mut client);
        let error = server.feed(&client.take_output()).expect_err(name);
        assert!(
            matches!(error, RpcError::Violation(_) | RpcError::Undecodable),
            "{name}: {error}"
        );
        let said = client.feed(&server.take_output()).expect_err(name);
        assert_eq!(said, RpcError::Refused(error.to_string()), "{name}");
    }
}

#[test]
fn a_stream_given_up_is_reset_and_what_still_comes_is_dropped() {
    let (mut client, mut server) = pair(Plant::None);
    let id = client.open(b"", b"").unwrap().unwrap();
    server.feed(&client.take_output()).unwrap();
    let there = server.accept().unwrap();
    server.drop_stream(there, 17);
    assert_eq!(client.send(id, b"late", b""), Ok(Sent::Yes));
    server.feed(&client.take_output()).unwrap();
    client.feed(&server.take_output()).unwrap();
    assert_eq!(client.take(id), Err(RpcError::Reset(17)));
    assert_eq!(client.send(id, b"", b""), Err(RpcError::Reset(17)));
    client.drop_stream(id, 0);
    // Its place is free again.
    for _ in 0..8 {
        assert!(client.open(b"", b"").unwrap().is_some());
    }
    assert_eq!(client.open(b"", b""), Err(RpcError::StreamsInUse(8)));
    server.feed(&client.take_output()).unwrap();
}

#[test]
fn sides_without_a_common_version_part_with_words() {
    let mut client = Session::new(Role::Client, Limits::default());
    client.output.clear();
    client.sequence_out = 0;
    let later = Hello {
        version_min: 7,
        version_max: 9,
        ..client.ours.clone()
    };
    client.control(Kind::Hello, 0, &later);
    let mut server = Session::new(Role::Server, Limits::default());
    let error = server.feed(&client.take_output()).unwrap_err();
    let expected = "no common version: here 1-1, there 7-9";
    assert_eq!(error.to_string(), expected);
}

proptest! {
    #[test]
    fn messages_arrive_as_they_were_sent_however_the_bytes_are_cut(
        messages in prop::collection::vec((0usize..300, 0usize..5000), 1..20),
        seed in any::<u64>(),
    ) {
        let (mut client, mut server) = pair(Plant::None);
        let mut rng = Rng::new(seed);
        let mut sent = Vec::new();
        let mut id = None;
        for (body_bytes, bulk_bytes) in messages {
            let mut message = Message { body: vec![0; body_bytes], bulk: vec![0; bulk_bytes] };
            rng.fill(&mut message.body);
            rng.fill(&mut message.bulk);
            match id {
                None => id = client.open(&message.body, &message.bulk).unwrap(),
                Some(id) => {
                    let went = client.send(id, &message.body, &message.bulk).unwrap();
                    prop_assert_eq!(went, Sent::Yes);
                }
            }
            sent.push(message);
        }
        let bytes = client.take_output();
        let mut left = &bytes[..];
        while !left.is_empty() {
            let (piece, rest) = left.split_at(rng.index(2000).min(left.len()));
            server.feed(piece).unwrap();
            left = rest;
        }
        prop_assert_eq!(drain(&mut server).0, sent);
    }

    #[test]
    fn any_bytes_are_refused_or_understood(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let (_, mut server) = pair(Plant::None);
        if server.feed(&bytes).is_ok() {
            prop_assert!(bytes.len() < HEADER_BYTES);
        }
    }
}
