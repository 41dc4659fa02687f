//! CLIENT TRACKING and what belongs to it.

use super::Call;
use crate::fault::{Answer, Fault, SYNTAX};
use crate::tracking::{Prefixes, Redirect, Remember, Tracker};

/// The other client that REDIRECT names.
fn redirect(call: &Call<'_>, at: usize) -> Result<Redirect, Fault> {
    let number = call.integer(at)?;
    let own = &*call.session;
    let sessions = call.engine.sessions.iter().flatten();
    let mut sessions = sessions.map(|session| &**session).chain([own]);
    let found = sessions.find(|session| session.id.0 as i64 == number);
    let found = found.map(|session| Redirect {
        client: session.id,
        token: session.token,
        gone: false,
    });
    found.ok_or(Fault::of(
        "ERR The client ID you want redirect to does not exist",
    ))
}

/// What a request asks for, and which prefixes it names.
type Asked = (Tracker, Vec<Box<[u8]>>);

fn asked(call: &Call<'_>) -> Result<Asked, Fault> {
    let mut tracker = Tracker {
        token: call.session.token,
        remember: Remember::All,
        caching: false,
        no_loop: false,
        redirect: None,
        broken: false,
        prefixes: None,
    };
    let (mut opt_in, mut opt_out, mut prefixes) = (false, false, Vec::new());
    let mut at = 3;
    while at < call.len() {
        let more = at + 1 < call.len();
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"REDIRECT" if more => {
                if tracker.redirect.is_some() {
                    return Err(Fault::of(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                tracker.redirect = Some(redirect(call, at + 1)?);
                at += 1;
            }
            b"PREFIX" if more => {
                prefixes.push(call.arg(at + 1).into());
                at += 1;
            }
            b"BCAST" => tracker.prefixes = Some(Prefixes::new()),
            b"OPTIN" => opt_in = true,
            b"OPTOUT" => opt_out = true,
            b"NOLOOP" => tracker.no_loop = true,
            _ => return Err(SYNTAX),
        }
        at += 1;
    }
    tracker.remember = match (opt_in, opt_out) {
        (false, false) => Remember::All,
        (true, false) => Remember::OptIn,
        (false, true) => Remember::OptOut,
        (true, true) if call.is(2, "ON") && tracker.prefixes.is_none() => {
            return Err(Fault::of(
                "ERR You can't specify both OPTIN mode and OPTOUT mode",
            ));
        }
        // Refused below, for BCAST; OFF looks at nothing.
        (true, true) => Remember::OptIn,
    };
    Ok((tracker, prefixes))
}

/// Whether what is asked for goes with itself, and with what was asked for before.
fn may_track(call: &Call<'_>, tracker: &Tracker, prefixes: &[Box<[u8]>]) -> Answer {
    let broadcasts = tracker.prefixes.is_some();
    if !broadcasts && !prefixes.is_empty() {
        return Err(Fault::of(
            "ERR PREFIX option requires BCAST mode to be enabled",
        ));
    }
    let before = call.engine.tracking.of(call.session.id);
    if before.is_some_and(|before| before.prefixes.is_some() != broadcasts) {
        return Err(Fault::of(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        ));
    }
    if broadcasts && tracker.remember != Remember::All {
        return Err(Fault::of(
            "ERR OPTIN and OPTOUT are not compatible with BCAST",
        ));
    }
    let other = match tracker.remember {
        Remember::All => None,
        Remember::OptIn => Some(Remember::OptOut),
        Remember::OptOut => Some(Remember::OptIn),
    };
    if other.is_some() && before.map(|before| before.remember) == other {
        return Err(Fault::of(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        ));
    }
    let existing = before.and_then(|before| before.prefixes.as_ref());
    apart(prefixes, existing.unwrap_or(&Prefixes::new()))
}

/// Whether no prefix is the beginning of another.
fn apart(prefixes: &[Box<[u8]>], existing: &Prefixes) -> Answer {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refused = |prefix: &[u8], which: &str, other: &[u8]| {
        let [prefix, other] = [prefix, other].map(String::from_utf8_lossy);
        Err(Fault::text(format!(
            "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single \
             client must not overlap."
        )))
    };
    for (at, prefix) in (1..).zip(prefixes) {
        if let Some(other) = existing.iter().find(|other| overlap(prefix, other)) {
            return refused(prefix, "an existing", other);
        }
        let mut rest = prefixes.iter().skip(at);
        if let Some(other) = rest.find(|other| overlap(prefix, other)) {
            return refused(prefix, "another provided", other);
        }
    }
    Ok(())
}

pub(super) fn tracking(call: &mut Call<'_>) -> Answer {
    let (mut tracker, prefixes) = asked(call)?;
    let id = call.session.id;
    if call.is(2, "ON") {
        may_track(call, &tracker, &prefixes)?;
        if let Some(all) = &mut tracker.prefixes {
            all.extend(prefixes);
            if all.is_empty() {
                all.insert(Box::default());
            }
        }
        call.engine.tracking.begin(id, tracker);
    } else if call.is(2, "OFF") {
        call.engine.tracking.end(id);
    } else {
        return Err(SYNTAX);
    }
    call.ok()
}

pub(super) fn caching(call: &mut Call<'_>) -> Answer {
    let id = call.session.id;
    let yes = match call.arg(2).to_ascii_lowercase().as_slice() {
        b"yes" => Some(true),
        b"no" => Some(false),
        _ => None,
    };
    let Some(tracker) = call.engine.tracking.of_mut(id) else {
        return Err(Fault::of(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
             OPTOUT mode enabled",
        ));
    };
    tracker.caching = match (yes, tracker.remember) {
        (Some(true), Remember::OptIn) | (Some(false), Remember::OptOut) => true,
        (Some(true), _) => {
            return Err(Fault::of(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        (Some(false), _) => {
            return Err(Fault::of(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        (None, _) => return Err(SYNTAX),
    };
    call.ok()
}

/// Who is told in place of the client: 0 for itself, -1 where nobody is told.
pub(super) fn redirection(tracker: Option<&Tracker>) -> i64 {
    tracker.map_or(-1, |tracker| {
        tracker
            .redirect
            .map_or(0, |redirect| redirect.client.0 as i64)
    })
}

pub(super) fn get_redirection(call: &mut Call<'_>) -> Answer {
    let tracker = call.engine.tracking.of(call.session.id);
    call.answer(redirection(tracker))
}

pub(super) fn tracking_info(call: &mut Call<'_>) -> Answer {
    let tracker = call.engine.tracking.of(call.session.id);
    let redirection = redirection(tracker);
    let mut flags = vec![if tracker.is_some() { "on" } else { "off" }];
    let mut prefixes = None;
    if let Some(tracker) = tracker {
        let modes: &[(bool, &str)] = &[
            (tracker.prefixes.is_some(), "bcast"),
            (tracker.remember == Remember::OptIn, "optin"),
            (
                tracker.remember == Remember::OptIn && tracker.caching,
                "caching-yes",
            ),
            (tracker.remember == Remember::OptOut, "optout"),
            (
                tracker.remember == Remember::OptOut && tracker.caching,
                "caching-no",
            ),
            (tracker.no_loop, "noloop"),
            (tracker.broken, "broken_redirect"),
        ];
        flags.extend(modes.iter().filter(|(is, _)| *is).map(|(_, word)| *word));
        prefixes = tracker.prefixes.as_ref();
    }
    let reply = &mut call.session.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirection);
    reply.bulk(b"prefixes");
    reply.array(prefixes.map_or(0, Prefixes::len));
    let prefixes = prefixes.into_iter().flatten();
    prefixes.for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
