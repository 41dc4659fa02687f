//! `holdfast kv`: a database in memory that speaks the Redis protocol.

use crate::exit::Exit;
use crate::failure::{Failure, NOTHING_CHANGED, Outcome};
use crate::screen;
use crate::signals::{self, Signals};
use crate::units;
use ::kv::acl::Acl;
use ::kv::server::{Options, ServeError, Server};
use ::kv::{Config, LoadError, Policy, parse_bytes};
use ::vlog::VlogError;
use clap::Subcommand;
use env::errno::ErrorKind;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

mod files;
mod tls;

pub use files::{ExportArgs, ImportArgs};
pub use tls::TlsArgs;

/// What to do with a database.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve the database of a directory, a new one where there is none, until stopped
    Serve(Box<ServeArgs>),
    /// Read all of a database that is not served, and say what is in it
    Check(CheckArgs),
    /// Make a database of an RDB file of Redis
    Import(ImportArgs),
    /// Write a database that is not served into an RDB file
    Export(ExportArgs),
}

impl Command {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Serve(_) => false,
            Command::Check(args) => args.json,
            Command::Import(args) => args.json,
            Command::Export(args) => args.json,
        }
    }
}

/// When a reply to a change may go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Fsync {
    /// When the change would survive a power cut
    Always,
    /// At once; a power cut may cost the last second
    Everysec,
    /// At once; a power cut may cost what the system had not written yet
    No,
}

impl Fsync {
    fn policy(self) -> Policy {
        match self {
            Fsync::Always => Policy::Always,
            Fsync::Everysec => Policy::EverySecond,
            Fsync::No => Policy::No,
        }
    }
}

/// Arguments of `holdfast kv serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// The directories of the database's log, in order: one, or several to spread it over disks
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The TCP port to listen on; 0 for any that is free, which is said, or for none beside --tls-port
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// The addresses to listen on; others than this machine's own need --requirepass
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: Vec<IpAddr>,
    /// Whether, and how, clients are served with TLS
    #[command(flatten)]
    pub tls: TlsArgs,
    /// A Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    pub unixsocket: Option<PathBuf>,
    /// When a reply to a change may go out
    #[arg(long, value_enum, default_value = "everysec")]
    pub appendfsync: Fsync,
    /// The password that clients have to give; better in the variable, where `ps` does not show it
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "HOLDFAST_KV_REQUIREPASS",
        hide_env_values = true
    )]
    pub requirepass: Option<String>,
    /// A file of users and what they may do; ACL SAVE and ACL LOAD are about it
    #[arg(long, value_name = "PATH")]
    pub aclfile: Option<PathBuf>,
    /// Memory that entries may take, such as 2gb; 0 for no bound
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    pub maxmemory: u64,
    /// Which entries go where that is reached
    #[arg(long, value_name = "POLICY", default_value = "noeviction")]
    pub maxmemory_policy: String,
    /// Another setting, as CONFIG SET takes it
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Threads that read the log at the start
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Bytes a second, read and written together, that compactions take at most
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub compaction_bytes_per_s: Option<u64>,
}

/// Arguments of `holdfast kv check`.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// The directories of the database's log, in order
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "a number, maybe with kb, mb or gb behind it".to_owned())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
///
/// # Errors
/// It could not be done; the message says why, what is safe, and what to do.
pub fn run(command: &Command) -> Outcome<Exit> {
    match command {
        Command::Serve(args) => serve(args).map(|()| Exit::Done),
        Command::Check(args) => check(args).map(|()| Exit::Done),
        Command::Import(args) => files::import(args).map(|()| Exit::Done),
        Command::Export(args) => files::export(args).map(|()| Exit::Done),
    }
}

fn config(args: &ServeArgs) -> Outcome<Config> {
    let mut config = Config::default();
    let own = [
        ("maxmemory", args.maxmemory.to_string()),
        ("maxmemory-policy", args.maxmemory_policy.clone()),
        ("requirepass", args.requirepass.clone().unwrap_or_default()),
    ];
    args.tls.show_in(&mut config);
    let own = own
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    for (name, value) in own.chain(args.settings.clone()) {
        config.set(&name, &value).map_err(|fault| {
            Failure::refuse(
                Exit::Usage,
                format!("{name}={value}: {fault}"),
                "docs/kv.md says which settings there are",
            )
        })?;
    }
    if let Some(path) = &args.aclfile {
        config.fix("aclfile", &path_text(path)?);
    }
    Ok(config)
}

/// Refuses addresses that other machines reach where everybody may do something without a password.
fn refuse_open(args: &ServeArgs, config: &Config, plain: bool) -> Outcome<()> {
    let open = args.bind.iter().find(|address| !address.is_loopback());
    let acl = Acl::open(config).map_err(|error| explain(&ServeError::Acl(error)))?;
    let known = !plain && args.tls.knows_clients();
    match open.filter(|_| acl.is_open() && !known) {
        None => Ok(()),
        Some(address) => Err(Failure::refuse(
            Exit::Usage,
            format!("{address} can be reached from other machines, and no password is set"),
            "give --requirepass, or an --aclfile whose user default has a password or is off, or leave --bind \
             at 127.0.0.1, or let clients show certificates alone: --tls-port with --port 0",
        )),
    }
}

fn paths(directories: &[PathBuf]) -> Outcome<Vec<String>> {
    directories.iter().map(|path| path_text(path)).collect()
}

fn path_text(path: &Path) -> Outcome<String> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::refuse(
            Exit::Usage,
            format!("{} is not UTF-8", path.display()),
            "name one whose path is",
        )),
    }
}

fn serve(args: &ServeArgs) -> Outcome<()> {
    let tls = args.tls.tls()?;
    let plain = args.port != 0 || tls.is_none();
    let config = config(args)?;
    refuse_open(args, &config, plain)?;
    for path in &args.directories {
        std::fs::create_dir_all(path).map_err(|error| {
            Failure::refuse(
                Exit::KvRefused,
                format!("{}: {}", path.display(), crate::os::words(&error)),
                "name a directory that can be made or is there",
            )
        })?;
    }
    let mut log = ::vlog::Options {
        recovery_threads: args.threads,
        ..::vlog::Options::default()
    };
    log.compaction.bytes_per_s_max = args.compaction_bytes_per_s.filter(|bytes| *bytes > 0);
    let addresses = |port| -> Vec<SocketAddr> {
        let all = args.bind.iter();
        all.map(|address| SocketAddr::new(*address, port)).collect()
    };
    let options = Options {
        listen: match plain {
            true => addresses(args.port),
            false => Vec::new(),
        },
        tls: tls.map(|(port, tls)| (addresses(port), tls)),
        unix_socket: args.unixsocket.clone(),
        directories: paths(&args.directories)?,
        policy: args.appendfsync.policy(),
        config,
        log,
    };
    let server = Server::bind(&options).map_err(|error| explain(&error))?;
    let handle = server.handle();
    let _signals = Signals::forward("the log", move |signal| {
        eprintln!("{}: ending in good order", signals::name(signal));
        crate::notify::stopping();
        handle.stop();
    })?;
    for address in server.addresses().into_iter().flatten() {
        screen::print(&format!("listening on {address}\n"))?;
    }
    for address in server.tls_addresses().into_iter().flatten() {
        screen::print(&format!("listening on {address} for TLS\n"))?;
    }
    server
        .run(|loaded| {
            // Who reads that may have gone; the server is for its clients.
            let _ = screen::print(&format!("serving {}\n", entries(loaded.entries())));
            crate::notify::ready("serving");
        })
        .map_err(|error| explain(&error))
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

/// Refuses directories without a database.
fn has_database(directories: &[PathBuf]) -> Outcome<()> {
    let is_there = |path: &PathBuf, name: &str| path.join(name).exists();
    let label = format!("{}.directory", ::kv::LOG_NAME);
    let mut missing = directories
        .iter()
        .filter(|path| !is_there(path, &label) && !is_there(path, ::kv::marker::MARKER_NAME));
    match missing.next() {
        None => Ok(()),
        Some(path) => Err(Failure::refuse(
            Exit::KvRefused,
            format!("{} has no database", path.display()),
            "name the directories that `holdfast kv serve` was given",
        )),
    }
}

fn directories(paths: &[String]) -> ::vlog::Result<Vec<::vlog::Directory>> {
    paths
        .iter()
        .map(|path| ::vlog::Directory::open(path))
        .collect()
}

/// Reads a database that is not served.
fn load(paths: &[String]) -> Outcome<::kv::Loaded> {
    let options = ::vlog::Options {
        threads: false,
        ..::vlog::Options::default()
    };
    let seen = AtomicU64::new(0);
    let config = Config::default();
    ::kv::load(|| directories(paths), options, Policy::No, &config, &seen)
        .map_err(|error| explain(&ServeError::Load(error)))
}

/// What `check` found.
#[derive(Serialize)]
struct Checked {
    entries: u64,
    #[serde(flatten)]
    log: ::vlog::Status,
}

fn check(args: &CheckArgs) -> Outcome<()> {
    let paths = paths(&args.directories)?;
    has_database(&args.directories)?;
    let loaded = load(&paths)?;
    let checked = Checked {
        entries: loaded.entries(),
        log: loaded.log().status(),
    };
    if args.json {
        return screen::print_json(&checked);
    }
    screen::print(&format!(
        "{}: all are as they were written\n  {} live records in {} and {}\n",
        entries(checked.entries),
        checked.log.records_live,
        units::plural(checked.log.files, "file"),
        units::bytes(checked.log.bytes),
    ))
}

/// An error of a server for people.
fn explain(error: &ServeError) -> Failure {
    let log = match error {
        ServeError::Load(LoadError::Log(error)) | ServeError::Log(error) => Some(error),
        _ => None,
    };
    let (exit, next) = match (error, log) {
        (_, Some(VlogError::Busy { .. })) => (
            Exit::KvInUse,
            "end the server that has it open, or name another directory",
        ),
        (_, Some(error)) if error.kind() == ErrorKind::Corrupt => (
            Exit::KvDamaged,
            "put back a good copy of that file; there is one copy of everything, so keep the\n\
             directory on redundant storage. `holdfast inspect FILE` shows what is in a file",
        ),
        (_, Some(error)) if error.kind() == ErrorKind::NoSpace => (
            Exit::KvRefused,
            "make room on the disk of the directory; a start needs a little",
        ),
        (ServeError::Load(LoadError::Lost { .. } | LoadError::Marker { .. }), _) => (
            Exit::KvDamaged,
            "put back a good copy of the directory; the message says what else can be done",
        ),
        (ServeError::Acl(_), _) => (
            Exit::KvRefused,
            "mend the file, or name another with --aclfile; an empty one leaves the user default alone",
        ),
        (ServeError::Listen { .. }, _) => (
            Exit::KvRefused,
            "end who listens there, or choose another --port or --bind",
        ),
        (ServeError::Load(_) | ServeError::Log(_), _) => (
            Exit::KvRefused,
            "the message says what the directory has; nothing is lost by naming the right one",
        ),
        (ServeError::System { .. }, _) => (
            Exit::Failed,
            "look at the limits of this process, and start it again",
        ),
    };
    Failure {
        what: error.to_string(),
        safe: match error {
            ServeError::Log(_) => "what was durable is in the log".to_owned(),
            _ => NOTHING_CHANGED.to_owned(),
        },
        next: next.to_owned(),
        exit,
    }
}
