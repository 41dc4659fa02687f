//! LATENCY: requests that took long.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};
use crate::latency::Event;

pub(super) static COMMANDS: &[Command] = &[command(
    "latency",
    -2,
    Flags::ADMIN
        .and(Flags::NO_SCRIPT)
        .and(Flags::LOADING)
        .and(Flags::CONTAINER),
    "server",
    latency,
)];

fn latency(call: &mut Call<'_>) -> Answer {
    match call.arg(1).to_ascii_uppercase().as_slice() {
        b"LATEST" => latest(call),
        b"HISTORY" => history(call),
        b"RESET" => reset(call),
        b"GRAPH" => graph(call),
        b"DOCTOR" => doctor(call),
        // Times of single commands are not counted.
        b"HISTOGRAM" => {
            call.reply().map(0);
            Ok(())
        }
        b"HELP" => super::introspect::subcommands(call),
        _ => Err(call.unknown_subcommand()),
    }
}

fn event<'a>(call: &'a Call<'_>) -> Option<&'a Event> {
    let name = std::str::from_utf8(call.arg(2)).ok()?;
    call.engine.latency.0.get(name)
}

fn latest(call: &mut Call<'_>) -> Answer {
    let events = &call.engine.latency.0;
    let reply = &mut call.session.reply;
    reply.array(events.len());
    for (name, event) in events {
        let last = event.samples.back();
        reply.array(4);
        reply.bulk(name.as_bytes());
        reply.integer(last.map_or(0, |last| last.at_s as i64));
        reply.integer(last.map_or(0, |last| last.ms as i64));
        reply.integer(event.ms_max as i64);
    }
    Ok(())
}

fn history(call: &mut Call<'_>) -> Answer {
    let samples = event(call).map(|event| event.samples.clone());
    let samples = samples.unwrap_or_default();
    let reply = call.reply();
    reply.array(samples.len());
    for sample in samples {
        reply.array(2);
        reply.integer(sample.at_s as i64);
        reply.integer(sample.ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Answer {
    let events = &mut call.engine.latency.0;
    let before = events.len();
    match call.arguments.get(2..) {
        None | Some([]) => events.clear(),
        Some(names) => events.retain(|name, _| !names.contains(&name.as_bytes())),
    }
    let count = before - events.len();
    call.answer_count(count)
}

/// A line for each sample, with a bar.
fn graph(call: &mut Call<'_>) -> Answer {
    let name = String::from_utf8_lossy(call.arg(2)).into_owned();
    let Some(event) = event(call) else {
        return Err(Fault::text(format!(
            "ERR No samples available for event '{name}'"
        )));
    };
    const WIDTH: u64 = 40;
    let mut text = format!("{name} - longest {} ms\n", event.ms_max);
    for sample in &event.samples {
        let width = (sample.ms * WIDTH).div_ceil(event.ms_max.max(1));
        let bar = "#".repeat(width.min(WIDTH) as usize);
        text.push_str(&format!("{} {bar} {} ms\n", sample.at_s, sample.ms));
    }
    call.reply().verbatim(&text);
    Ok(())
}

fn doctor(call: &mut Call<'_>) -> Answer {
    let threshold_ms = call.engine.config.latency_ms;
    let mut text = match threshold_ms {
        0 => "Nothing is remembered: CONFIG SET latency-monitor-threshold MS changes that.\n"
            .to_owned(),
        ms => {
            format!("Requests of {ms} ms and more are remembered; SLOWLOG GET shows single ones.\n")
        }
    };
    for (name, event) in &call.engine.latency.0 {
        let count = event.samples.len();
        text.push_str(&format!(
            "{name}: in {count} seconds, at most {} ms\n",
            event.ms_max
        ));
    }
    call.reply().verbatim(&text);
    Ok(())
}
