//! CLIENT.

use super::{Call, Command, Flags, command, tracking};
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::Version;
use crate::session::{ClientId, Replies, Session, Token};
use crate::tracking::Tracker;

pub(super) static COMMANDS: &[Command] = &[command(
    "client",
    -2,
    Flags::LOADING.and(Flags::NO_SCRIPT),
    (0, 0, 0),
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

fn describe(session: &Session, tracker: Option<&Tracker>, now_ms: u64) -> String {
    let mut flags = String::from(match session {
        session if session.monitor => "O",
        session if session.is_blocked() => "b",
        session if session.queue.is_some() => "x",
        session if session.is_subscribed() => "P",
        session if session.no_evict => "e",
        _ => "",
    });
    if let Some(tracker) = tracker {
        flags.push('t');
        flags.extend(tracker.broken.then_some('R'));
        flags.extend(tracker.prefixes.is_some().then_some('B'));
    }
    if flags.is_empty() {
        flags.push('N');
    }
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
         omem={} tot-mem=0 events=r cmd={} user=default redir={redirection} resp={version}",
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
    )
}

fn client(call: &mut Call<'_>) -> Answer {
    let now_ms = call.engine.now_ms;
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
        let line = describe(
            call.session,
            call.engine.tracking.of(call.session.id),
            now_ms,
        ) + "\n";
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
    if call.sub("PAUSE", -3)? || call.sub("UNPAUSE", 2)? {
        return pause(call);
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

fn list(call: &mut Call<'_>) -> Answer {
    let now_ms = call.engine.now_ms;
    let (mut wanted_type, mut ids) = (None, None);
    match call.len() {
        2 => {}
        4 if call.is(2, "TYPE") => wanted_type = Some(call.arg(3).to_ascii_lowercase()),
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
    let of_type = |session: &Session| match wanted_type.as_deref() {
        None => true,
        Some(b"normal") => !session.is_subscribed(),
        Some(b"pubsub") => session.is_subscribed(),
        _ => false,
    };
    if let Some(name) = &wanted_type
        && !matches!(
            name.as_slice(),
            b"normal" | b"pubsub" | b"master" | b"replica" | b"slave"
        )
    {
        return Err(Fault::text(format!(
            "ERR Unknown client type '{}'",
            String::from_utf8_lossy(name)
        )));
    }
    let own = &*call.session;
    let others = call
        .engine
        .sessions
        .iter()
        .flatten()
        .map(|session| &**session);
    let mut all: Vec<&Session> = others
        .chain([own])
        .filter(|session| of_type(session))
        .collect();
    all.retain(|session| ids.as_ref().is_none_or(|ids| ids.contains(&session.id.0)));
    all.sort_by_key(|session| session.id);
    let text: String = all
        .iter()
        .map(|session| {
            let tracker = call.engine.tracking.of(session.id);
            describe(session, tracker, now_ms) + "\n"
        })
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

fn kill(call: &mut Call<'_>) -> Answer {
    let old_form = call.len() == 3;
    let (mut id, mut address, mut local, mut skip_own) = (None, None, None, true);
    if old_form {
        address = Some(call.arg(2));
        skip_own = false;
    } else {
        let mut at = 2;
        while at < call.len() {
            if at + 1 >= call.len() {
                return Err(SYNTAX);
            }
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"ID" => {
                    let number = call.integer(at + 1).ok().filter(|id| *id > 0);
                    let wrong = Fault::of("ERR client-id should be greater than 0");
                    id = Some(ClientId(number.ok_or(wrong)? as u64));
                }
                b"ADDR" => address = Some(call.arg(at + 1)),
                b"LADDR" => local = Some(call.arg(at + 1)),
                b"TYPE" | b"USER" => {}
                b"SKIPME" => {
                    skip_own = match call.arg(at + 1).to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(SYNTAX),
                    };
                }
                _ => return Err(SYNTAX),
            }
            at += 2;
        }
    }
    let matches = |session: &Session| {
        id.is_none_or(|id| session.id == id)
            && address.is_none_or(|address| session.address[0].as_bytes() == address)
            && local.is_none_or(|local| session.address[1].as_bytes() == local)
    };
    let others = call.engine.sessions.iter().flatten();
    let found: Vec<Token> = others
        .filter(|session| matches(session))
        .map(|session| session.token)
        .collect();
    let mut count = found.len();
    for token in found {
        if let Some(session) = call.engine.session_mut(token) {
            session.closing = true;
        }
        call.engine.touch_session(token);
    }
    if !skip_own && matches(call.session) {
        call.session.closing = true;
        count += 1;
    }
    match (old_form, count) {
        (true, 0) => Err(Fault::of("ERR No such client")),
        (true, _) => call.ok(),
        (false, count) => call.answer_count(count),
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
    Err(Fault::text(format!(
        "ERR CLIENT {} is not supported",
        String::from_utf8_lossy(call.arg(1)).to_ascii_uppercase()
    )))
}
