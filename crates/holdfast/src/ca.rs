//! `holdfast ca`: who may speak with whom between machines.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{os, screen};
use ::transfer::manifest::Signer;
use rpc::tls::{Authority, AuthorityError, Credentials};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the certificate of an authority is valid.
const AUTHORITY_DAYS: u32 = 3650;

/// Certificates are valid from so much before they were made: clocks differ.
const SKEW: Duration = DAY;

/// The authority's certificate, there and with each machine.
const AUTHORITY: &str = "ca.pem";
/// The authority's key.
const AUTHORITY_KEY: &str = "ca.key";
/// A machine's certificate.
const OWN: &str = "machine.pem";
/// A machine's key.
const OWN_KEY: &str = "machine.key";

/// What `holdfast ca` can do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Make a new authority in DIR, which keeps its key
    Init {
        /// A directory; made where it is missing
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Make a key and a certificate for a machine, in a directory to be copied there
    #[command(after_help = "\
The directory has ca.pem, machine.pem and machine.key. Copy all of it to the machine, where only the \
user that runs holdfast may read it, and name it by --tls.")]
    Issue {
        /// What others connect to: a DNS name or an IP address
        #[arg(value_name = "NAME")]
        name: String,
        /// The directory of the authority
        #[arg(long, value_name = "DIR", default_value = ".")]
        ca: PathBuf,
        /// The directory to make; NAME in that of the authority where it is not given
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// How long it is valid
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: u32,
    },
}

/// Does it.
///
/// # Errors
/// A directory cannot be used, or has an authority or a certificate already.
pub fn run(command: &Command) -> Outcome<Exit> {
    match command {
        Command::Init { dir } => init(dir)?,
        Command::Issue {
            name,
            ca,
            out,
            days,
        } => {
            let out = out.clone().unwrap_or_else(|| ca.join(name));
            issue(name, ca, &out, *days)?;
        }
    }
    Ok(Exit::Done)
}

fn init(dir: &Path) -> Outcome<()> {
    let authority = Authority::new().map_err(|error| Failure::unexpected("a key", &error))?;
    let certificate = authority.certificate(AUTHORITY_DAYS * DAY);
    let certificate = certificate.map_err(|error| Failure::unexpected("a certificate", &error))?;
    let made = private_dir(dir).and_then(|()| {
        write_new(&dir.join(AUTHORITY_KEY), authority.key().as_bytes(), 0o600)?;
        write_new(&dir.join(AUTHORITY), certificate.as_bytes(), 0o644)?;
        File::open(dir)?.sync_all()
    });
    made.map_err(|error| unmade(dir, &error))?;
    screen::print(&format!(
        "an authority is in {0}\n  for each machine: holdfast ca issue NAME --ca {0}\n  \
         {0}/{AUTHORITY_KEY} can be anybody: keep it where nobody else reads it\n",
        dir.display()
    ))
}

fn issue(name: &str, ca: &Path, out: &Path, days: u32) -> Outcome<()> {
    let key = read_secret(&ca.join(AUTHORITY_KEY))?;
    let certificate = read(&ca.join(AUTHORITY))?;
    let authority = Authority::from_key(&String::from_utf8_lossy(&key));
    let authority = authority.map_err(|error| {
        let next = "name the directory of an authority: --ca DIR";
        Failure::refuse(Exit::BadCertificate, error.to_string(), next)
    })?;
    let now = SystemTime::now();
    let issued = authority.issue(name, now - SKEW, now + days * DAY);
    let issued = issued.map_err(|error| match error {
        AuthorityError::Name(_) => {
            let next = "give the name that others connect to, such as backup.example";
            Failure::refuse(Exit::Usage, error.to_string(), next)
        }
        _ => Failure::unexpected("a certificate", &error),
    })?;
    let made = private_dir(out).and_then(|()| {
        write_new(&out.join(OWN_KEY), issued.key.as_bytes(), 0o600)?;
        write_new(&out.join(OWN), issued.certificate.as_bytes(), 0o644)?;
        write_new(&out.join(AUTHORITY), &certificate, 0o644)?;
        File::open(out)?.sync_all()
    });
    made.map_err(|error| unmade(out, &error))?;
    screen::print(&format!(
        "{name} has a certificate for {days} days in {0}\n  copy that directory to {name}, and name \
         it there: --tls DIR\n",
        out.display()
    ))
}

/// Reads what `ca issue` has made for this machine.
///
/// # Errors
/// Something is missing, others may read the key, or they do not fit together.
pub fn credentials(dir: &Path) -> Outcome<Credentials> {
    let certificate = read(&dir.join(OWN))?;
    let key = read_secret(&dir.join(OWN_KEY))?;
    let authority = read(&dir.join(AUTHORITY))?;
    Credentials::new(&certificate, &key, &authority).map_err(|error| {
        let what = format!("{}: {error}", dir.display());
        let next = "make it anew: `holdfast ca issue NAME`, where the authority is";
        Failure::refuse(Exit::BadCertificate, what, next)
    })
}

/// Who signs manifests with what `ca issue` has made for this machine.
///
/// # Errors
/// As [`credentials`].
pub fn signer(dir: &Path) -> Outcome<Signer> {
    signer_of(dir, &credentials(dir)?)
}

/// As [`signer`], of credentials that were read from `dir`.
///
/// # Errors
/// The key is of a kind that `ca issue` does not make.
pub fn signer_of(dir: &Path, credentials: &Credentials) -> Outcome<Signer> {
    let certificate = credentials.certificate().to_vec();
    Signer::new(credentials.key(), Some(certificate)).map_err(|error| {
        let what = format!("{}: {error}", dir.display());
        let next = "make it anew: `holdfast ca issue NAME`, where the authority is";
        Failure::refuse(Exit::BadCertificate, what, next)
    })
}

/// Reads a certificate.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| {
        let what = format!("{}: {}", path.display(), os::words(&error));
        let next = "`holdfast ca init DIR` and `holdfast ca issue NAME --ca DIR` make such files";
        Failure::refuse(Exit::BadCertificate, what, next)
    })
}

/// Reads a key, if nobody but its owner can.
///
/// # Errors
/// It cannot be read, or others can.
pub(crate) fn read_secret(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = read(path)?;
    let mode = fs::metadata(path).map_or(0, |found| found.mode());
    if mode & 0o077 != 0 {
        let what = format!("others may read the key {}", path.display());
        let next = format!(
            "if somebody may have, make it anew; otherwise: chmod 600 {}",
            path.display()
        );
        return Err(Failure::refuse(Exit::BadCertificate, what, next));
    }
    Ok(bytes)
}

fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn unmade(dir: &Path, error: &io::Error) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{} has such files already", dir.display()),
        _ => format!("{}: {}", dir.display(), os::words(error)),
    };
    Failure::refuse(Exit::BadCertificate, what, "name another directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_read_by_their_owner_alone_and_nothing_is_written_over() {
        let home = tempfile::tempdir().expect("a directory");
        let ca = home.path().join("ca");
        init(&ca).expect("an authority");
        issue("host.example", &ca, &ca.join("host.example"), 30).expect("a certificate");
        let own = ca.join("host.example");
        for key in [ca.join(AUTHORITY_KEY), own.join(OWN_KEY)] {
            let mode = fs::metadata(key).expect("a key").mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let credentials = credentials(&own).expect("credentials");
        assert_eq!(credentials.name().as_deref(), Some("host.example"));
        let again = init(&ca).expect_err("an authority is there");
        assert!(again.what.contains("already"), "{again}");
        let again = issue("host.example", &ca, &own, 30).expect_err("it is there");
        assert!(again.what.contains("already"), "{again}");
        let tricks = issue("../up", &ca, &ca.join("up"), 30).expect_err("no name");
        assert_eq!(tricks.exit, Exit::Usage);
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(own.join(OWN_KEY), open).expect("a mode");
        let refused = self::credentials(&own).err().expect("others may read it");
        assert!(refused.what.contains("others may read"), "{refused}");
    }
}
