//! The connection itself.

use super::keys::database;
use super::{Call, Command, Flags, command};
use crate::acl::{Context, DEFAULT, Reason};
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::Version;
use crate::session::Replies;

const BASE: Flags = Flags::LOADING.and(Flags::FAST);
const OPEN: Flags = BASE.and(Flags::NO_AUTH).and(Flags::NO_SCRIPT);

pub(super) static COMMANDS: &[Command] = &[
    command(
        "ping",
        -1,
        Flags::FAST.and(Flags::PUBSUB),
        "connection",
        ping,
    ),
    command("echo", 2, BASE, "connection", echo),
    command("select", 2, BASE, "connection", select),
    command("auth", -2, OPEN.and(Flags::NO_QUEUE), "connection", auth),
    command("hello", -1, OPEN.and(Flags::NO_QUEUE), "connection", hello),
    command(
        "quit",
        -1,
        OPEN.and(Flags::NO_QUEUE).and(Flags::PUBSUB),
        "connection",
        quit,
    ),
    command(
        "reset",
        1,
        OPEN.and(Flags::NO_QUEUE).and(Flags::PUBSUB),
        "connection",
        reset,
    ),
];

fn ping(call: &mut Call<'_>) -> Answer {
    if call.len() > 2 {
        return Err(Fault::arity("ping"));
    }
    let word = (call.len() == 2).then(|| call.arg(1));
    let subscribed = call.session.is_subscribed();
    let reply = call.reply();
    if subscribed && reply.version == Version::Two {
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(word.unwrap_or_default());
        return Ok(());
    }
    match word {
        Some(word) => reply.bulk(word),
        None => reply.simple("PONG"),
    }
    Ok(())
}

fn echo(call: &mut Call<'_>) -> Answer {
    let word = call.arg(1);
    call.reply().bulk(word);
    Ok(())
}

fn select(call: &mut Call<'_>) -> Answer {
    call.session.database = database(call, 1)?;
    call.ok()
}

fn log_in(call: &mut Call<'_>, name: &[u8], password: &[u8]) -> Answer {
    let Some(user) = call.engine.acl.log_in(name, password) else {
        let context = match call.session.queue {
            Some(_) => Context::Multi,
            None => Context::TopLevel,
        };
        let object = call.arg(0);
        call.engine
            .note_denied(call.session, Reason::Auth, context, name, object);
        return Err(Fault::of(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ));
    };
    call.session.user = user;
    call.session.authenticated = true;
    Ok(())
}

fn auth(call: &mut Call<'_>) -> Answer {
    match call.len() {
        2 if call.engine.acl.default_user().takes_any_password() => {
            return Err(Fault::of(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => log_in(call, DEFAULT, call.arg(1))?,
        3 => log_in(call, call.arg(1), call.arg(2))?,
        _ => return Err(SYNTAX),
    }
    call.ok()
}

fn hello(call: &mut Call<'_>) -> Answer {
    let mut version = call.session.reply.version;
    if call.len() > 1 {
        let number = values::number::parse_integer(call.arg(1));
        let not_integer = Fault::of("ERR Protocol version is not an integer or out of range");
        version = match number.ok_or(not_integer)? {
            2 => Version::Two,
            3 => Version::Three,
            _ => return Err(Fault::of("NOPROTO unsupported protocol version")),
        };
    }
    let mut at = 2;
    let mut name = None;
    while at < call.len() {
        if call.is(at, "AUTH") && at + 2 < call.len() {
            log_in(call, call.arg(at + 1), call.arg(at + 2))?;
            at += 3;
        } else if call.is(at, "SETNAME") && at + 1 < call.len() {
            name = Some(call.arg(at + 1));
            at += 2;
        } else {
            return Err(Fault::text(format!(
                "ERR Syntax error in HELLO option '{}'",
                String::from_utf8_lossy(call.arg(at))
            )));
        }
    }
    if call.engine.needs_auth(call.session) {
        return Err(Fault::of(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
             <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
             RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        super::client::set_name(call, name)?;
    }
    let id = call.session.id.0;
    let reply = call.reply();
    reply.version = version;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(super::info::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if version == Version::Three { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn quit(call: &mut Call<'_>) -> Answer {
    call.session.closing = true;
    call.ok()
}

fn reset(call: &mut Call<'_>) -> Answer {
    call.engine.forget(call.session);
    let session = &mut *call.session;
    session.database = 0;
    session.name.clear();
    session.replies = Replies::On;
    session.no_evict = false;
    session.reply.version = Version::Two;
    session.user = call.engine.acl.default_user().clone();
    session.authenticated = call.engine.acl.is_open();
    call.reply().simple("RESET");
    Ok(())
}
