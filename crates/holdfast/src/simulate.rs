//! `holdfast simulate NAME`: a policy on a recorded load, without any store.

use crate::failure::Outcome;

pub mod redundancy;
pub mod trace;

/// What can be simulated.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Simulation {
    /// Which data would be encoded, and what that costs, over a block trace
    Redundancy(Box<redundancy::Args>),
}

/// Runs the one that was named.
///
/// # Errors
/// The parameters do not fit together, or the trace cannot be used.
pub fn run(what: &Simulation) -> Outcome<()> {
    match what {
        Simulation::Redundancy(args) => redundancy::run(args),
    }
}
