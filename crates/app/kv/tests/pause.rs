//! Clients that are paused, over sockets: their requests wait, and take no more memory than there is for them.

#[path = "support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;

use client::Client;
use served::{Served, serve};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

/// Does nothing, unless it was started as a server.
#[test]
fn child() {
    serve(holdfast_kv::Policy::EverySecond);
}

/// Bytes that a client may bring on its way while it is paused: what sockets hold, and one read.
const ON_THE_WAY_MAX: usize = 64 << 20;

#[test]
fn what_is_paused_waits_in_its_order_and_in_bounded_memory() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path());
    let mut operator = Client::connect(served.port).unwrap();
    let mut writer = Client::connect(served.port).unwrap();
    assert_eq!(
        operator
            .ask(&["CLIENT", "PAUSE", "600000", "WRITE"])
            .unwrap(),
        "+OK"
    );
    writer.send(&["SET", "k", "v"]).unwrap();
    writer.send(&["GET", "k"]).unwrap();

    let mut flood = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    flood.set_nonblocking(true).unwrap();
    let value = "x".repeat(1 << 16);
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nf\r\n$65536\r\n{value}\r\n");
    let (mut sent, mut refused) = (0, 0);
    // A server that took more would make the socket writable again and again.
    while refused < 200 && sent < ON_THE_WAY_MAX {
        match flood.write(&request.as_bytes()[sent % request.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                // The server has its turn meanwhile.
                assert_eq!(operator.ask(&["GET", "k"]).unwrap(), "$-1");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < ON_THE_WAY_MAX, "it takes all that comes");
    let list = operator.ask(&["CLIENT", "LIST"]).unwrap();
    assert_eq!(list.matches("flags=b ").count(), 2, "{list}");

    assert_eq!(operator.ask(&["CLIENT", "UNPAUSE"]).unwrap(), "+OK");
    assert_eq!(writer.receive().unwrap(), "+OK");
    assert_eq!(writer.receive().unwrap(), "v");
    served.kill();
}

#[test]
fn a_pause_ends_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path());
    let mut client = Client::connect(served.port).unwrap();
    assert_eq!(client.ask(&["CLIENT", "PAUSE", "50"]).unwrap(), "+OK");
    assert_eq!(client.ask(&["SET", "k", "v"]).unwrap(), "+OK");
    served.kill();
}

#[test]
fn a_killed_client_is_gone_though_it_does_not_read() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path());
    let mut operator = Client::connect(served.port).unwrap();
    let mut other = Client::connect(served.port).unwrap();
    assert_eq!(other.ask(&["CLIENT", "SETNAME", "victim"]).unwrap(), "+OK");
    let killed = operator.ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    assert_eq!(killed, ":1");
    assert!(other.ask(&["PING"]).is_err());
    let list = operator.ask(&["CLIENT", "LIST"]).unwrap();
    assert!(!list.contains("victim"), "{list}");
    served.kill();
}
