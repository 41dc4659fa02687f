//! `holdfast volume rescue`: a volume whose log is damaged, as it was at the moment before the damage.

use super::{Shown, explain, open_disks};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{screen, units};
use ::volume::{GivenUp, Options, Volume, VolumeError};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `holdfast volume rescue`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The files or block devices of the volume, in order
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// Do it: what was written after the damage is lost for good, also what was synced
    #[arg(long)]
    pub give_up: bool,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// What is said of it.
#[derive(Serialize)]
struct Report {
    /// Whether the log is damaged so that a part has to be given up.
    damaged: bool,
    /// Flights that are known to be lost, each one or more writes; 0 where nothing is damaged.
    flights: u64,
    /// Whether that was done.
    given_up: bool,
}

/// Says what would be given up, or gives it up.
///
/// # Errors
/// The volume cannot be opened, also not as it was before the damage.
pub(super) fn run(args: &Args) -> Outcome<Exit> {
    let refused = |error: VolumeError| match error {
        VolumeError::FlightLost { .. } => {
            let mut failure = explain(&args.devices, &error);
            failure.next = "there is no moment to go back to, for the newest checkpoint has later \
                            changes:\nrestore the volume from a backup"
                .to_owned();
            failure
        }
        other => explain(&args.devices, &other),
    };
    let disks = open_disks(&args.devices, args.give_up)?;
    let rescued = Volume::rescue(disks, Options::default(), !args.give_up);
    let (volume, given_up) = rescued.map_err(refused)?;
    let report = Report {
        damaged: given_up.is_some(),
        flights: given_up.map_or(0, |given_up| given_up.flights()),
        given_up: given_up.is_some() && args.give_up,
    };
    match args.json {
        true => screen::print_json(&report)?,
        false => {
            screen::print(&words(given_up.as_ref(), args))?;
            Shown::of(&volume).print(false)?;
        }
    }
    if args.give_up {
        volume
            .close()
            .map_err(|error| explain(&args.devices, &error))?;
    }
    Ok(match report.damaged && !report.given_up {
        true => Exit::VolumeDamaged,
        false => Exit::Done,
    })
}

fn words(given_up: Option<&GivenUp>, args: &Args) -> String {
    let Some(given_up) = given_up else {
        return "nothing is to be given up: the volume opens as it is\n".to_owned();
    };
    let lost = format!(
        "at least the last {} of the log",
        units::plural(given_up.flights(), "write")
    );
    match args.give_up {
        true => format!("{lost} were given up: the volume is as it was before the damage\n"),
        false => format!(
            "the log is damaged: {lost} would be given up, and the volume be as it was before\n\
             them; copy the devices first, then give --give-up to do so\n"
        ),
    }
}
