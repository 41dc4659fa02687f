//! What replication and a cluster would need: this server is one by itself.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault, SYNTAX};

const ADMIN: Flags = Flags::ADMIN.and(Flags::NO_SCRIPT);
const QUICK: Flags = Flags::LOADING.and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("role", 1, QUICK.and(Flags::NO_SCRIPT), "server", role),
    command("replicaof", 3, ADMIN, "server", replicaof),
    command("slaveof", 3, ADMIN, "server", replicaof),
    command("failover", -1, ADMIN, "server", failover),
    command("wait", 3, Flags::BLOCKING, "generic", wait),
    command("sync", 1, ADMIN.and(Flags::NO_MULTI), "server", copy),
    command("psync", -3, ADMIN.and(Flags::NO_MULTI), "server", copy),
    command("replconf", -1, ADMIN.and(Flags::LOADING), "server", copy),
    command("cluster", -2, Flags::CONTAINER, "cluster", no_cluster),
    command("asking", 1, Flags::FAST, "cluster", no_cluster),
    command("readonly", 1, QUICK, "cluster", no_cluster),
    command("readwrite", 1, QUICK, "cluster", no_cluster),
];

fn role(call: &mut Call<'_>) -> Answer {
    let reply = call.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

fn replicaof(call: &mut Call<'_>) -> Answer {
    if call.is(1, "NO") && call.is(2, "ONE") {
        return call.ok();
    }
    Err(Fault::of("ERR this server does not replicate"))
}

fn failover(call: &mut Call<'_>) -> Answer {
    let words = call.rest(1);
    let known = [b"TO".as_slice(), b"FORCE", b"ABORT", b"TIMEOUT"];
    match words {
        [word] if word.eq_ignore_ascii_case(b"ABORT") => {
            Err(Fault::of("ERR No failover in progress."))
        }
        [word, ..] if !known.iter().any(|known| word.eq_ignore_ascii_case(known)) => Err(SYNTAX),
        _ => Err(Fault::of("ERR FAILOVER requires connected replicas.")),
    }
}

fn wait(call: &mut Call<'_>) -> Answer {
    call.integer(1)?;
    if call.integer(2)? < 0 {
        return Err(Fault::of("ERR timeout is negative"));
    }
    // There are no replicas.
    call.answer(0)
}

/// A replica asks for a copy, or for changes.
fn copy(_: &mut Call<'_>) -> Answer {
    Err(Fault::of(
        "ERR this server does not replicate; BGSAVE writes an RDB file that Redis 7.0 and later load",
    ))
}

fn no_cluster(_: &mut Call<'_>) -> Answer {
    Err(Fault::of("ERR This instance has cluster support disabled"))
}
