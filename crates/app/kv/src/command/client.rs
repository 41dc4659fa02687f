//! CLIENT.

use super::{Call, Command, Flags, command, tracking};
use crate::engine::{Engine, Pause};
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::Version;
use crate::session::{ClientId, Replies, Session, Token};

pub(super) static COMMANDS: &[Command] = &[command(
    "client",
    -2,
    Flags::LOADING.and(Flags::NO_SCRIPT).and(Flags::CONTAINER),
    "connection",
    client,
)];

/// Gives the connection a name.
pub(super) fn set_name(call: &mut Call<'_>, name: &[u8]) -> Answer {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(Fault::of(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    call.session.name = name.to_vec();
    Ok(())
}

/// A client, as CLIENT LIST shows it.
pub(crate) fn describe(engine: &Engine, session: &Session) -> String {
    let (tracker, now_ms) = (engine.tracking.of(session.id), engine.now_ms);
    let flags: String = [
        (session.monitor, 'O'),
        (session.is_subscribed(), 'P'),
        (session.queue.is_some(), 'x'),
        (session.is_blocked(), 'b'),
        (tracker.is_some(), 't'),
        (tracker.is_some_and(|tracker| tracker.broken), 'R'),
        (tracker.is_some_and(|t| t.prefixes.is_some()), 'B'),
        (session.watch_broken, 'd'),
        (session.closing, 'c'),
        (session.address[0].starts_with('/'), 'U'),
        (session.no_evict, 'e'),
    ]
    .iter()
    .filter_map(|(has, letter)| has.then_some(*letter))
    .collect();
    let flags = if flags.is_empty() { "N" } else { &flags };
    let redirection = tracking::redirection(tracker);
    let queued = session
        .queue
        .as_ref()
        .map_or(-1, |queue| queue.commands.len() as i64);
    let version = if session.reply.version == Version::Three {
        3
    } else {
        2
    };
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
         ssub={} multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
         omem={} tot-mem=0 events=r cmd={} user={} redir={redirection} resp={version}",
        session.id.0,
        session.address[0],
        session.address[1],
        session.token.0,
        String::from_utf8_lossy(&session.name),
        now_ms.saturating_sub(session.since_ms) / 1000,
        now_ms.saturating_sub(session.active_ms) / 1000,
        session.database,
        session.subscriptions[0].len(),
        session.subscriptions[1].len(),
        session.subscriptions[2].len(),
        session.reply.len(),
        session.last_command,
        String::from_utf8_lossy(session.user.name()),
    )
}

fn client(call: &mut Call<'_>) -> Answer {
    if call.sub("ID", 2)? {
        let id = call.session.id.0;
        return call.answer(id as i64);
    }
    if call.sub("GETNAME", 2)? {
        let name = Some(call.session.name.clone()).filter(|name| !name.is_empty());
        call.reply().bulk_or_null(name.as_deref());
        return Ok(());
    }
    if call.sub("SETNAME", 3)? {
        set_name(call, call.arg(2))?;
        return call.ok();
    }
    if call.sub("INFO", 2)? {
        let line = describe(call.engine, call.session) + "\n";
        call.reply().verbatim(&line);
        return Ok(());
    }
    if call.sub("LIST", -2)? {
        return list(call);
    }
    if call.sub("REPLY", 3)? {
        return replies(call);
    }
    if call.sub("NO-EVICT", 3)? {
        call.session.no_evict = on_off(call.arg(2))?;
        return call.ok();
    }
    if call.sub("KILL", -3)? {
        return kill(call);
    }
    if call.sub("UNBLOCK", -3)? {
        return unblock(call);
    }
    if call.sub("TRACKING", -3)? {
        return tracking::tracking(call);
    }
    if call.sub("CACHING", 3)? {
        return tracking::caching(call);
    }
    if call.sub("GETREDIR", 2)? {
        return tracking::get_redirection(call);
    }
    if call.sub("TRACKINGINFO", 2)? {
        return tracking::tracking_info(call);
    }
    if call.sub("PAUSE", -3)? {
        return pause(call);
    }
    if call.sub("UNPAUSE", 2)? {
        call.engine.unpause();
        return call.ok();
    }
    if call.sub("HELP", 2)? {
        return super::introspect::help(call, HELP);
    }
    Err(call.unknown_subcommand())
}

fn on_off(word: &[u8]) -> Result<bool, Fault> {
    match word.to_ascii_uppercase().as_slice() {
        b"ON" => Ok(true),
        b"OFF" => Ok(false),
        _ => Err(SYNTAX),
    }
}

/// Kinds of clients, as CLIENT LIST and CLIENT KILL name them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Subscriber,
    /// Of replication, which there is none of.
    Replication,
}

impl Kind {
    fn parse(name: &[u8]) -> Result<Kind, Fault> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Kind::Normal),
            b"pubsub" => Ok(Kind::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Kind::Replication),
            _ => Err(Fault::text(format!(
                "ERR Unknown client type '{}'",
                String::from_utf8_lossy(name)
            ))),
        }
    }

    fn of(session: &Session) -> Kind {
        match session.is_subscribed() {
            true => Kind::Subscriber,
            false => Kind::Normal,
        }
    }
}

fn list(call: &mut Call<'_>) -> Answer {
    let (mut kind, mut ids) = (None, None);
    match call.len() {
        2 => {}
        4 if call.is(2, "TYPE") => kind = Some(Kind::parse(call.arg(3))?),
        _ if call.is(2, "ID") && call.len() > 3 => {
            let mut all = Vec::new();
            for at in 3..call.len() {
                let id = call
                    .integer(at)
                    .map_err(|_| Fault::of("ERR Invalid client ID"))?;
                all.push(id as u64);
            }
            ids = Some(all);
        }
        _ => return Err(SYNTAX),
    }
    let others = call.engine.sessions.iter().flatten();
    let mut all: Vec<&Session> = others
        .map(|session| &**session)
        .chain([&*call.session])
        .filter(|session| kind.is_none_or(|kind| kind == Kind::of(session)))
        .filter(|session| ids.as_ref().is_none_or(|ids| ids.contains(&session.id.0)))
        .collect();
    all.sort_by_key(|session| session.id);
    let text: String = all
        .iter()
        .map(|session| describe(call.engine, session) + "\n")
        .collect();
    call.reply().verbatim(&text);
    Ok(())
}

fn replies(call: &mut Call<'_>) -> Answer {
    call.session.replies = match call.arg(2).to_ascii_uppercase().as_slice() {
        b"ON" => {
            call.session.replies = Replies::On;
            return call.ok();
        }
        b"OFF" => Replies::Off,
        b"SKIP" if call.session.replies == Replies::On => Replies::SkipNext,
        b"SKIP" => call.session.replies,
        _ => return Err(SYNTAX),
    };
    Ok(())
}

/// Which clients CLIENT KILL ends.
#[derive(Default)]
struct Filter<'a> {
    id: Option<ClientId>,
    kind: Option<Kind>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    spares_own: bool,
}

impl<'a> Filter<'a> {
    fn parse(call: &Call<'a>) -> Result<Filter<'a>, Fault> {
        let mut filter = Filter {
            spares_own: call.len() > 3,
            ..Filter::default()
        };
        if call.len() == 3 {
            filter.address = Some(call.arg(2));
            return Ok(filter);
        }
        for at in (2..call.len()).step_by(2) {
            if at + 1 >= call.len() {
                return Err(SYNTAX);
            }
            let value = call.arg(at + 1);
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"ID" => {
                    let number = call.integer(at + 1).ok().filter(|id| *id > 0);
                    let wrong = Fault::of("ERR client-id should be greater than 0");
                    filter.id = Some(ClientId(number.ok_or(wrong)? as u64));
                }
                b"TYPE" => filter.kind = Some(Kind::parse(value)?),
                b"ADDR" => filter.address = Some(value),
                b"LADDR" => filter.local = Some(value),
                b"USER" if call.engine.acl.user(value).is_some() => filter.user = Some(value),
                b"USER" => {
                    let name = String::from_utf8_lossy(value);
                    return Err(Fault::text(format!("ERR No such user '{name}'")));
                }
                b"SKIPME" => {
                    filter.spares_own = match value.to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(SYNTAX),
                    };
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(filter)
    }

    fn takes(&self, session: &Session) -> bool {
        let is_at = |wanted: Option<&[u8]>, address: &String| {
            wanted.is_none_or(|wanted| wanted == address.as_bytes())
        };
        self.id.is_none_or(|id| session.id == id)
            && self.kind.is_none_or(|kind| kind == Kind::of(session))
            && is_at(self.address, &session.address[0])
            && is_at(self.local, &session.address[1])
            && self.user.is_none_or(|name| session.user.name() == name)
    }
}

fn kill(call: &mut Call<'_>) -> Answer {
    let filter = Filter::parse(call)?;
    let others = call.engine.sessions.iter().flatten();
    let found: Vec<Token> = others
        .filter(|session| filter.takes(session))
        .map(|session| session.token)
        .collect();
    let mut count = found.len();
    for token in found {
        call.engine.kill_session(token);
    }
    if !filter.spares_own && filter.takes(call.session) {
        // It hears of it first.
        call.session.closing = true;
        count += 1;
    }
    match (call.len(), count) {
        (3, 0) => Err(Fault::of("ERR No such client")),
        (3, _) => call.ok(),
        (_, count) => call.answer_count(count),
    }
}

fn unblock(call: &mut Call<'_>) -> Answer {
    let id = call.integer(2)?;
    let error = match call.len() {
        3 => None,
        4 if call.is(3, "TIMEOUT") => None,
        4 if call.is(3, "ERROR") => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        _ => {
            return Err(Fault::of(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let sessions = call.engine.sessions.iter().flatten();
    let mut found = sessions.filter(|session| session.id.0 as i64 == id);
    let token = found.next().map(|session| session.token);
    let done = token.is_some_and(|token| call.engine.unblock(token, error));
    call.answer(done.into())
}

fn pause(call: &mut Call<'_>) -> Answer {
    let all = match call.len() {
        3 => true,
        4 if call.is(3, "WRITE") => false,
        4 if call.is(3, "ALL") => true,
        4 => return Err(Fault::of("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => {
            let word = String::from_utf8_lossy(call.arg(1)).into_owned();
            return Err(Fault::text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try CLIENT HELP."
            )));
        }
    };
    let wrong = Fault::of("ERR timeout is not an integer or out of range");
    let span_ms = call.integer(2).map_err(|_| wrong)?;
    let span_ms = u64::try_from(span_ms).map_err(|_| Fault::of("ERR timeout is negative"))?;
    let until_ms = call.engine.now_ms.saturating_add(span_ms);
    call.engine.pause(Pause { until_ms, all });
    call.ok()
}

/// Words for people.
const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "HELP",
    "    Prints this help.",
];
