//! Where a tree is sent to.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use ::transfer::TreePath;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What begins the address of another machine.
const SSH: &str = "ssh://";

/// Where to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    /// A directory of this machine.
    Local(PathBuf),
    /// A directory of another, through ssh.
    Ssh(Host),
    /// A directory of another, where `holdfast receive --listen` runs.
    Listening(Listening),
}

/// Another machine that listens, and a directory below the one that it receives into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listening {
    /// Its name or address.
    pub(super) host: String,
    /// Where below its root.
    pub(super) below: TreePath,
}

/// Another machine, as `ssh` names it, and a directory there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Host {
    /// `[USER@]HOST`.
    pub(super) name: String,
    /// The port, where it is not ssh's own choice.
    pub(super) port: Option<u16>,
    /// The directory, from its root.
    pub(super) path: PathBuf,
}

impl Destination {
    /// Reads what the command line has.
    ///
    /// # Errors
    /// An address that is none, or of a kind that is not there yet.
    pub(super) fn parse(text: &OsStr) -> Outcome<Destination> {
        let bytes = text.as_bytes();
        if let Some(rest) = bytes.strip_prefix(SSH.as_bytes()) {
            let host = Host::parse(rest).ok_or_else(|| {
                Failure::refuse(
                    Exit::Usage,
                    format!("{} is no address", text.to_string_lossy()),
                    "the form is ssh://[USER@]HOST[:PORT]/PATH",
                )
            })?;
            return Ok(Destination::Ssh(host));
        }
        let first = bytes.split(|byte| *byte == b'/').next().unwrap_or_default();
        if first.contains(&b':') {
            let listening = Listening::parse(bytes).ok_or_else(|| {
                let shown = text.to_string_lossy();
                Failure::refuse(
                    Exit::Usage,
                    format!("{shown} is no place on another machine"),
                    format!(
                        "the form is HOST:DIR, where DIR is below the directory that HOST receives \
                         into\na directory here: ./{shown}"
                    ),
                )
            })?;
            return Ok(Destination::Listening(listening));
        }
        Ok(Destination::Local(PathBuf::from(text)))
    }
}

impl Listening {
    /// `HOST:DIR` or `[ADDRESS]:DIR`; DIR may be empty, and slashes around it mean nothing.
    fn parse(text: &[u8]) -> Option<Listening> {
        let end = match text.first()? {
            b'[' => text.iter().position(|byte| *byte == b']')? + 1,
            _ => text.iter().position(|byte| *byte == b':')?,
        };
        let (host, rest) = text.split_at_checked(end)?;
        let rest = rest.strip_prefix(b":")?;
        let host = std::str::from_utf8(host).ok()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let names = rest.split(|byte| *byte == b'/');
        let named = names.filter(|name| !name.is_empty() && *name != b".");
        let below = named.fold(TreePath::root(), |path, name| path.join(name));
        (!host.is_empty() && below.is_allowed()).then(|| Listening {
            host: host.to_owned(),
            below,
        })
    }
}

impl Host {
    fn parse(rest: &[u8]) -> Option<Host> {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (host, path) = rest.split_at_checked(slash)?;
        let host = std::str::from_utf8(host).ok()?;
        let (name, port) = match host.rsplit_once(':') {
            // An IPv6 address has brackets around it.
            Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse().ok()?)),
            _ => (host, None),
        };
        let plain = |c: char| c.is_ascii_graphic() && c != '\'' && c != '"';
        // What begins with a hyphen would be an option of ssh.
        if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
            return None;
        }
        Some(Host {
            name: name.to_owned(),
            port,
            path: PathBuf::from(OsStr::from_bytes(path)),
        })
    }
}

/// Refuses a destination that is in the source, or the other way round: a copy of itself.
///
/// # Errors
/// It is so.
pub(super) fn need_apart(source: &Path, destination: &Path) -> Outcome<()> {
    // What cannot be resolved yet is in neither: it is refused, or made, later.
    let (Ok(from), Ok(to)) = (source.canonicalize(), resolve(destination)) else {
        return Ok(());
    };
    if from.is_dir() && (to.starts_with(&from) || from.starts_with(&to)) {
        return Err(Failure::refuse(
            Exit::TransferRefused,
            format!(
                "{} and {} are in each other",
                source.display(),
                destination.display()
            ),
            "name a destination outside of the source",
        ));
    }
    Ok(())
}

/// The real path of what may still have to be made.
fn resolve(path: &Path) -> std::io::Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    Ok(parent.canonicalize()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let ssh = |name: &str, port, path: &str| {
            Destination::Ssh(Host {
                name: name.to_owned(),
                port,
                path: PathBuf::from(path),
            })
        };
        let listening = |host: &str, names: &[&str]| {
            let join = |path: TreePath, name: &&str| path.join(name.as_bytes());
            Destination::Listening(Listening {
                host: host.to_owned(),
                below: names.iter().fold(TreePath::root(), join),
            })
        };
        for (text, wanted) in [
            ("dir", Destination::Local("dir".into())),
            ("./a:b", Destination::Local("./a:b".into())),
            ("/srv/a:b", Destination::Local("/srv/a:b".into())),
            ("ssh://h/d", ssh("h", None, "/d")),
            ("ssh://me@h:22/d/e f", ssh("me@h", Some(22), "/d/e f")),
            ("ssh://[::1]/d", ssh("[::1]", None, "/d")),
            ("ssh://[::1]:2222/d", ssh("[::1]", Some(2222), "/d")),
            ("h:d", listening("h", &["d"])),
            ("h:", listening("h", &[])),
            ("10.0.0.7:/d//e/.", listening("10.0.0.7", &["d", "e"])),
            ("[fe80::1]:d:e", listening("fe80::1", &["d:e"])),
        ] {
            assert_eq!(Destination::parse(OsStr::new(text)), Ok(wanted), "{text}");
        }
        for bad in [
            "ssh://h",
            "ssh:///d",
            "ssh://h:x/d",
            "ssh://-oX=y/d",
            "ssh://a b/d",
            ":d",
            "h:../d",
            "[::1",
            "[::1]d:",
        ] {
            assert!(Destination::parse(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_copy_into_itself_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        std::fs::create_dir_all(a.join("sub")).expect("a directory");
        assert!(need_apart(&a, &b).is_ok());
        assert!(need_apart(&a, &a.join("sub")).is_err());
        assert!(need_apart(&a, &a.join("sub/new")).is_err());
        assert!(need_apart(&a.join("sub"), &a).is_err());
        assert!(need_apart(&a, &a).is_err());
    }
}
