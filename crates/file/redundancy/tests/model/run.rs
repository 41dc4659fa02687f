//! Runs of many seeds, and the shortest one that still fails.

use crate::system::System;
use crate::world::World;
use anyhow::{Context, Result};
use holdfast_redundancy::store::sim::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Steps of a run.
const STEPS: u64 = 160;
/// Runs to spend on making a failing one shorter.
const SHRINK_RUNS: usize = 120;

/// A run that failed.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    /// The steps that are left after shrinking.
    pub(crate) steps: Vec<u64>,
    pub(crate) error: String,
    pub(crate) log: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {} fails after these operations:", self.seed)?;
        for line in &self.log {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "{}", self.error)?;
        write!(f, "replay with HOLDFAST_SEED={}", self.seed)
    }
}

fn run_steps(system: &dyn System, seed: u64, steps: &[u64], log: &mut Vec<String>) -> Result<()> {
    let mut world = World::new(system, seed)?;
    let result = steps
        .iter()
        .try_for_each(|step| {
            let mut rng = Rng::new(seed ^ step.wrapping_mul(0xD6E8_FEB8_6659_FD93));
            world.step(&mut rng).with_context(|| format!("step {step}"))
        })
        .and_then(|()| world.finish(&mut Rng::new(seed)).context("at the end"));
    *log = std::mem::take(&mut world.log);
    result
}

fn attempt(system: &dyn System, seed: u64, steps: &[u64]) -> Option<Failure> {
    let mut log = Vec::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run_steps(system, seed, steps, &mut log)
    }));
    let error = match outcome {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .map_or_else(|| "panic".to_string(), |text| format!("panic: {text}"))
        }
    };
    Some(Failure {
        seed,
        steps: steps.to_vec(),
        error,
        log,
    })
}

/// Runs one seed; a failure comes back with as few steps as could be found, or with all of them
/// where `HOLDFAST_WHOLE` is set, so that what the engine logs is of the run that failed.
pub(crate) fn run(system: &dyn System, seed: u64) -> Option<Failure> {
    let steps: Vec<u64> = (0..STEPS).collect();
    let mut failure = attempt(system, seed, &steps)?;
    if std::env::var_os("HOLDFAST_WHOLE").is_some() {
        return Some(failure);
    }
    let mut chunk = failure.steps.len() / 2;
    let mut left = SHRINK_RUNS;
    while chunk > 0 {
        let mut start = 0;
        while start < failure.steps.len() && left > 0 {
            left -= 1;
            let mut fewer = failure.steps.clone();
            fewer.drain(start..(start + chunk).min(fewer.len()));
            match attempt(system, seed, &fewer) {
                Some(smaller) => failure = smaller,
                None => start += chunk,
            }
        }
        chunk /= 2;
    }
    Some(failure)
}

/// Runs seeds from 1 until one fails, `seeds` have passed, or the time is over.
/// `HOLDFAST_SEED` runs that seed alone; `HOLDFAST_SOAK` (minutes) runs seeds that were not run
/// before for so long.
pub(crate) fn run_many(system: &dyn System, seeds: u64, limit: Duration) -> Option<Failure> {
    if let Some(seed) = number("HOLDFAST_SEED") {
        return run(system, seed);
    }
    let (seeds, first, limit) = match number("HOLDFAST_SOAK") {
        Some(minutes) => {
            let now = std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |e| e.as_secs());
            (
                u64::MAX - now * 1_000_000,
                now * 1_000_000,
                Duration::from_secs(minutes * 60),
            )
        }
        None => (seeds, 1, limit),
    };
    let start = Instant::now();
    (first..first + seeds)
        .take_while(|_| start.elapsed() < limit)
        .find_map(|seed| run(system, seed))
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number")),
    )
}
