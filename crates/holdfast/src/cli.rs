//! The command line.

use crate::config::{self, Flags, InForce};
use crate::exit::{self, Exit};
use crate::failure::Outcome;
use crate::{
    bench, ca, check, down, inject, inspect, kv, logs, screen, shell, simulate, status, store,
    torture, transfer, up, verify, volume,
};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps data durable on ordinary Linux servers.
///
/// `holdfast up` protects a directory tree: every file is kept on several stores as a plain
/// file, and any store may be lost.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, max_term_width = 100)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// The configuration file, in place of /etc/holdfast/holdfast.toml
    #[arg(long, global = true, value_name = "FILE", env = "HOLDFAST_CONFIG")]
    pub config: Option<PathBuf>,
    /// How log lines look; HOLDFAST_LOG chooses the levels (such as info)
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "HOLDFAST_LOG_FORMAT"
    )]
    pub log_format: logs::Format,
    /// Where control sockets are
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "HOLDFAST_RUNTIME_DIR",
        default_value = crate::control::place::RUNTIME_DIR
    )]
    pub runtime_dir: PathBuf,
}

/// The main job's flags.
#[derive(Clone, Debug, clap::Args)]
pub struct SetArgs {
    /// The same struct as the section `[redundancy]` of the configuration file.
    #[command(flatten)]
    pub config: redundancy::Config,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Protect a directory tree: serve MOUNT from the stores until stopped
    Up(Box<SetArgs>),
    /// Stop a running holdfast
    Down(down::Args),
    /// Show each store, redundancy, and rebuild progress
    Status(status::Args),
    /// Take in a store that came back, or an empty one in place of a lost one
    Attach(store::AttachArgs),
    /// Stop using a store
    Detach(store::DetachArgs),
    /// Compare all copies, and change none
    Check {
        /// The set.
        #[command(flatten)]
        set: Box<SetArgs>,
        /// One JSON object in place of text
        #[arg(long)]
        json: bool,
    },
    /// Compare all copies, and give a store that lacks some what it lacks
    Repair {
        /// The set.
        #[command(flatten)]
        set: Box<SetArgs>,
        /// The stores that are away will not come back: encoded data of which too little is left
        /// becomes zeros, and all else gets its copies again
        #[arg(long)]
        accept_loss: bool,
        /// One JSON object in place of text
        #[arg(long)]
        json: bool,
    },
    /// Hold encoded data against its checksums, and make what is damaged anew
    Scrub {
        /// The set.
        #[command(flatten)]
        set: Box<SetArgs>,
        /// One JSON object in place of text
        #[arg(long)]
        json: bool,
    },
    /// Work with the configuration
    Config {
        /// What to do with it.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Keep blocks in a log on files or devices, where several writes are one
    Volume {
        /// What to do with it.
        #[command(subcommand)]
        command: volume::Command,
    },
    /// Serve a database in memory by the Redis protocol, from a log that keeps it
    Kv {
        /// What to do with it.
        #[command(subcommand)]
        command: kv::Command,
    },
    /// Copy a tree, and prove what the destination's medium returns of it
    Send(transfer::SendArgs),
    /// Receive a tree that `send` sends
    Receive(transfer::ReceiveArgs),
    /// Hold a tree against the manifest of its transfer, by reading all of it
    Verify(verify::Args),
    /// Flip bits of a file on a loop device on purpose, to see who finds it
    Inject(inject::Args),
    /// Make certificates, by which machines know each other
    Ca {
        /// What to do.
        #[command(subcommand)]
        command: ca::Command,
    },
    /// Print what is in a file that Holdfast wrote
    Inspect(inspect::Args),
    /// Measure against a peer
    #[command(after_help = "Without a name: the list of benchmarks.")]
    Bench,
    /// Look for a broken promise under faults
    #[command(after_help = "Without a name: the list of tortures.")]
    Torture,
    /// Try a policy on a recorded load, without any store
    Simulate {
        /// Which.
        #[command(subcommand)]
        what: simulate::Simulation,
    },
    /// Print shell completions
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man {
        /// Write a page for each command into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Actions of `holdfast config`.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Print what is in force, and where each value comes from
    Show {
        /// Flags to lay over the file.
        #[command(flatten)]
        set: Box<SetArgs>,
        /// One JSON object in place of TOML
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    fn wants_json(&self) -> bool {
        match self {
            Command::Check { json, .. }
            | Command::Repair { json, .. }
            | Command::Scrub { json, .. }
            | Command::Status(status::Args { json, .. })
            | Command::Inspect(inspect::Args { json, .. })
            | Command::Config {
                action: ConfigAction::Show { json, .. },
            } => *json,
            Command::Simulate {
                what: simulate::Simulation::Redundancy(args),
            } => args.json,
            Command::Volume { command } => command.wants_json(),
            Command::Kv { command } => command.wants_json(),
            Command::Send(args) => args.json,
            Command::Verify(args) => args.json,
            _ => false,
        }
    }
}

/// The whole command line as clap knows it: the registered benchmarks and tortures are
/// subcommands, and the exit codes are in the long help.
pub fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("bench", bench::command)
        .mut_subcommand("torture", torture::command)
        .after_long_help(exit::help())
}

/// Runs the process's command line.
pub fn run() -> ExitCode {
    let matches = command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    logs::start(cli.global.log_format);
    let json = cli.command.wants_json();
    let exit = execute(cli, &matches).unwrap_or_else(|failure| {
        eprintln!("{failure}");
        if json {
            // Standard error has said it already.
            let _said = screen::print_json(&serde_json::json!({ "error": failure }));
        }
        failure.exit
    });
    ExitCode::from(exit.number())
}

fn execute(cli: Cli, matches: &ArgMatches) -> Outcome<Exit> {
    let runtime = &cli.global.runtime_dir;
    let in_force = |set: SetArgs| -> Outcome<InForce> {
        let flags = Flags {
            config: set.config,
            given: given(matches),
        };
        config::load(cli.global.config.as_deref(), &flags)
    };
    let done = |outcome: Outcome<()>| outcome.map(|()| Exit::Done);
    match cli.command {
        Command::Up(set) => done(up::run(&in_force(*set)?, runtime)),
        Command::Down(args) => done(down::run(&args, runtime)),
        Command::Status(args) => status::run(&args, runtime),
        Command::Attach(args) => done(store::attach(&args, runtime)),
        Command::Detach(args) => done(store::detach(&args, runtime)),
        Command::Check { set, json } => check::run(&in_force(*set)?, runtime, json),
        Command::Repair {
            set,
            accept_loss,
            json,
        } => check::repair(&in_force(*set)?, runtime, accept_loss, json),
        Command::Scrub { set, json } => check::scrub(&in_force(*set)?, runtime, json),
        Command::Config {
            action: ConfigAction::Show { set, json },
        } => {
            let in_force = in_force(*set)?;
            if json {
                done(screen::print_json(&in_force.to_json()?))
            } else {
                done(screen::print(&in_force.to_toml()?))
            }
        }
        Command::Volume { command } => volume::run(&command),
        Command::Kv { command } => kv::run(&command),
        Command::Send(args) => transfer::send(&args),
        Command::Receive(args) => transfer::receive(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::Ca { command } => ca::run(&command),
        Command::Inspect(args) => inspect::run(&args),
        Command::Bench => bench::run(options_of(matches)),
        Command::Torture => torture::run(options_of(matches)),
        Command::Simulate { what } => done(simulate::run(&what)),
        Command::Completions { shell } => done(shell::completions(shell)),
        Command::Man { dir } => done(shell::man(dir.as_deref())),
    }
}

/// The arguments of the command that was given.
fn options_of(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, deeper)| deeper)
}

/// The arguments of the innermost command that were given, not defaulted.
fn given(matches: &ArgMatches) -> std::collections::BTreeSet<String> {
    let mut innermost = matches;
    while let Some((_, deeper)) = innermost.subcommand() {
        innermost = deeper;
    }
    let ids = innermost.ids().map(clap::Id::as_str);
    ids.filter(|id| innermost.value_source(id) == Some(ValueSource::CommandLine))
        .map(str::to_owned)
        .collect()
}

/// A list of names with what they are.
pub(crate) fn table<'a>(what: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = format!("{what}:\n");
    for (name, about) in rows {
        text.push_str(&format!("  {name:<14} {about}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn only_what_was_given_counts_as_given() {
        let words = ["holdfast", "config", "show", "--copies", "2", "/m"];
        let matches = command().try_get_matches_from(words).expect("valid words");
        let given: Vec<String> = given(&matches)
            .into_iter()
            .filter(|id| id != "Config")
            .collect();
        assert!(given.contains(&"copies".to_owned()), "{given:?}");
        assert!(given.contains(&"mount".to_owned()), "{given:?}");
        assert!(!given.contains(&"threads".to_owned()), "{given:?}");
    }
}
