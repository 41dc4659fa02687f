//! `holdfast up`: serve a mount in the foreground until told to stop.

use crate::config::InForce;
use crate::control::place::Place;
use crate::control::server::{Down, Server};
use crate::engine::{self, Engine, Event, OnEvent};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::preflight::{self, Machine};
use crate::signals::{self, Signals};
use crate::{mounts, notify, screen};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

mod report;
#[cfg(test)]
mod tests;

/// What wakes the main thread.
enum Wake {
    Signal(i32),
    Down(Down),
    Engine(Event),
}

/// Serves until a signal, `holdfast down`, or the end of the mount.
///
/// # Errors
/// What stops a start, or a stop that could not make everything durable.
pub fn run(in_force: &InForce, runtime: &Path) -> Outcome<()> {
    let config = &in_force.settings.redundancy;
    // The mount must not be kept busy, nor a directory held, by where this was started.
    std::env::set_current_dir("/").map_err(|error| Failure::unexpected("/", &error))?;
    env::descriptors::raise_limit();
    let machine = Machine::look();
    let pre_check = preflight::check(in_force, &machine);
    if matches!(&pre_check, Err(failure) if failure.exit == Exit::NoPermission) {
        return pre_check.map(drop);
    }
    let plan = pre_check?;
    let place = Place::take(runtime, &config.mount)?;
    let (wake, woken) = channel();
    let on_signal = wake.clone();
    let signals = Signals::forward("its stores", move |signal| {
        let _ended = on_signal.send(Wake::Signal(signal));
    })?;
    plan.carry_out()?;
    let events = wake.clone();
    let on_event: OnEvent = Arc::new(move |event| {
        // The main thread ends only after the engine has.
        let _ended = events.send(Wake::Engine(event));
    });
    let opening = screen::Waiting::begin("opening the stores");
    let engine = engine::open(config, on_event)?;
    let listener = place.listen()?;
    engine.start(&config.mount)?;
    drop(opening);
    let on_down = Box::new(move |down| {
        let _ended = wake.send(Wake::Down(down));
    });
    let server = Server::start(listener, engine.clone(), on_down)?;
    let status = engine.status();
    let mut notes = plan.notes;
    let asked = (!in_force.is_default("copies")).then_some(config.copies);
    notes.extend(report::unheeded(asked, &config.without, &status));
    if !in_force.is_default("encode_percent") {
        notes.extend(report::unencoded(config.encode_percent, &status));
    }
    screen::print(&report::text(&status, &notes))?;
    notify::ready(&report::line(&status));
    let outcome = serve(engine.as_ref(), &woken, &config.mount);
    server.stop();
    drop(signals);
    drop(place);
    outcome?;
    screen::print(&format!(
        "stopped: {} is unmounted, everything is on its stores\n",
        config.mount.display()
    ))
}

fn serve(engine: &dyn Engine, woken: &Receiver<Wake>, mount: &Path) -> Outcome<()> {
    while let Ok(wake) = woken.recv() {
        match wake {
            Wake::Signal(signal) => {
                let name = signals::name(signal);
                screen::print(&format!("\nstopping ({name}): making everything durable\n"))?;
                notify::stopping();
                return engine.stop(true);
            }
            Wake::Down(Down { force, reply }) => {
                let outcome = stop_for(engine, force, mount);
                let ended = outcome.is_ok();
                // Whoever asked may have given up waiting.
                let _gone = reply.send(outcome);
                if ended {
                    return Ok(());
                }
            }
            Wake::Engine(Event::Unmounted) => {
                screen::print(&format!(
                    "{} was unmounted from outside: stopping\n",
                    mount.display()
                ))?;
                notify::stopping();
                return engine.stop(true);
            }
            Wake::Engine(Event::Store { index, text }) => {
                screen::print(&format!("store {index}: {text}\n"))?;
                notify::status(&report::line(&engine.status()));
            }
        }
    }
    Ok(())
}

/// Stops on request; a refusal because of users names them.
fn stop_for(engine: &dyn Engine, force: bool, mount: &Path) -> Outcome<()> {
    engine
        .stop(force)
        .inspect(|()| notify::stopping())
        .map_err(|failure| {
            if failure.exit == Exit::MountBusy {
                busy(mount, &mounts::users(mount, 5))
            } else {
                failure
            }
        })
}

/// Programs use the mount.
pub fn busy(mount: &Path, users: &[String]) -> Failure {
    let by = if users.is_empty() {
        "programs".to_owned()
    } else {
        users.join(", ")
    };
    Failure {
        what: format!("{} is in use by {by}", mount.display()),
        safe: "it goes on as before".to_owned(),
        next: format!(
            "end those programs and try again\n\
             or stop all the same: `holdfast down --force {}`",
            mount.display()
        ),
        exit: Exit::MountBusy,
    }
}
