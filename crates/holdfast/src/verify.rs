//! `holdfast verify`: a tree, held against the manifest of the transfer that brought it.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{self, Bar};
use crate::{os, units};
use ::transfer::manifest::{self, Listed, Manifest, ManifestError, Signature, Version};
use ::transfer::verify::{Verified, VerifyError, verify};
use serde_json::json;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Files that are named in text; `--json` names them all.
const SHOWN: usize = 20;

/// Files that are read at once: enough to keep a disk busy.
const THREADS: usize = 8;

/// Arguments of `holdfast verify`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Every file of the manifest is dropped from the page cache and read again, and what each object carries is \
compared. Run it as root where the receiver was root: others see no attributes trusted.*. Objects that are not \
in the manifest are not looked at.")]
pub struct Args {
    /// What `send --manifest` has written
    #[arg(value_name = "MANIFEST")]
    pub manifest: PathBuf,
    /// The root of the tree
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The certificate of the authority (ca.pem) that has to vouch for who signed it
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Files that are read at once
    #[arg(long, value_name = "N", default_value_t = THREADS, value_parser = threads)]
    pub threads: usize,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

fn threads(text: &str) -> Result<usize, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=256).contains(number));
    number.ok_or_else(|| "from 1 to 256".to_owned())
}

/// Who has signed a manifest.
enum Signer {
    Nobody,
    /// Somebody with this key; nobody was asked who that is.
    Key(String),
    /// The machine of this name.
    Machine(String),
}

/// Looks at every object that a manifest lists, and reads every file.
///
/// # Errors
/// The manifest or the directory cannot be used. Files that differ are no error here: the exit code
/// says so.
pub fn run(args: &Args) -> Outcome<Exit> {
    // All of it has to be right before any of it is believed.
    let mut latest = 0;
    let read = manifest::read(open(&args.manifest)?, |listed| {
        if let Listed::File(proved) = listed {
            latest = latest.max(proved.at);
        }
    });
    let manifest = read.map_err(|error| unreadable(&args.manifest, &error))?;
    let signer = signer(&manifest, args.ca.as_deref(), latest)?;
    let mut bar = Bar::new("reading");
    let show = |found: &Verified| {
        bar.show(&redundancy::status::Progress {
            phase: "reading".to_owned(),
            objects_done: found.files,
            bytes_done: found.bytes,
            ..redundancy::status::Progress::default()
        });
    };
    let (_, found) = verify(open(&args.manifest)?, &args.dir, args.threads, show).map_err(
        |error| match error {
            VerifyError::Manifest(error) => unreadable(&args.manifest, &error),
            VerifyError::Directory(error) => Failure::refuse(
                Exit::TransferRefused,
                format!("{}: {error}", args.dir.display()),
                "name the directory that the tree was sent to",
            ),
        },
    )?;
    drop(bar);
    match args.json {
        true => screen::print_json(&json(&manifest, &signer, &found))?,
        false => screen::print(&words(&manifest, &signer, &found))?,
    }
    Ok(match found.is_right() {
        true => Exit::Done,
        false => Exit::Differences,
    })
}

fn open(path: &Path) -> Outcome<BufReader<File>> {
    File::open(path).map(BufReader::new).map_err(|error| {
        Failure::refuse(
            Exit::Unrecognised,
            format!("{}: {}", path.display(), os::words(&error)),
            "name a file that `send --manifest` has written",
        )
    })
}

fn unreadable(path: &Path, error: &ManifestError) -> Failure {
    let exit = match error {
        ManifestError::Io(_) | ManifestError::None => Exit::Unrecognised,
        _ => Exit::Corrupt,
    };
    let what = format!("{}: {error}", path.display());
    Failure::refuse(
        exit,
        what,
        "take another copy of the manifest, if there is one",
    )
}

/// Who has signed it, and whether the authority that was named vouches for that.
fn signer(manifest: &Manifest, ca: Option<&Path>, at: i64) -> Outcome<Signer> {
    let refuse = |what: String| {
        let next = "without --ca nobody is asked who has signed it";
        Failure::refuse(Exit::BadCertificate, what, next)
    };
    let (Some(signature), Some(ca)) = (&manifest.signature, ca) else {
        return match (&manifest.signature, ca) {
            (None, Some(_)) => Err(refuse("nobody has signed the manifest".to_owned())),
            (None, None) => Ok(Signer::Nobody),
            (Some(signature), _) => Ok(Signer::Key(key(signature))),
        };
    };
    let authority =
        fs::read(ca).map_err(|error| refuse(format!("{}: {}", ca.display(), os::words(&error))))?;
    let certificate = signature.certificate.as_deref().unwrap_or_default();
    let at = u64::try_from(at).unwrap_or_default();
    match rpc::tls::vouched(&authority, certificate, &signature.key, at) {
        Ok(name) => Ok(Signer::Machine(name)),
        Err(why) => Err(refuse(format!(
            "{} does not vouch for who signed the manifest: the certificate is not accepted: {why}",
            ca.display()
        ))),
    }
}

fn key(signature: &Signature) -> String {
    signature.key.map(|byte| format!("{byte:02x}")).concat()
}

fn json(manifest: &Manifest, signer: &Signer, found: &Verified) -> serde_json::Value {
    let differences = found.differences.iter().map(
        |(path, difference)| json!({ "path": path.to_string(), "what": difference.to_string() }),
    );
    let (signed_by, vouched) = match signer {
        Signer::Nobody => (None, false),
        Signer::Key(key) => (Some(key), false),
        Signer::Machine(name) => (Some(name), true),
    };
    json!({
        "right": found.is_right(),
        "level": found.level(),
        "files": found.files,
        "bytes": found.bytes,
        "files_listed": manifest.files,
        "others": found.others,
        "others_listed": manifest.others,
        "version": manifest.version.number(),
        "from_cache": found.from_cache,
        "signed_by": signed_by,
        "vouched": vouched,
        "notes": manifest.notes,
        "differences": differences.collect::<Vec<_>>(),
        "differences_more": found.differences_more,
    })
}

fn words(manifest: &Manifest, signer: &Signer, found: &Verified) -> String {
    let mut text = format!(
        "{} of {} are as they were proved; {} listed\n",
        units::plural(found.files, "file"),
        units::bytes(found.bytes),
        units::count(manifest.files),
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<11}{value}\n"));
    line(
        "others:",
        match manifest.version {
            Version::One => "not listed: the manifest is of version 1".to_owned(),
            Version::Two => format!(
                "{} directories, links and others are as they got into place; {} listed",
                units::count(found.others),
                units::count(manifest.others),
            ),
        },
    );
    line(
        "read from:",
        match found.from_cache {
            0 => "the device".to_owned(),
            files => format!(
                "the device, but for {}: the kernel kept some of each in memory, or would not tell",
                units::plural(files, "file")
            ),
        },
    );
    line(
        "signed by:",
        match signer {
            Signer::Nobody => "nobody: it says what was proved, and not who says so".to_owned(),
            Signer::Key(key) => format!("key {key}; --ca asks whose it is"),
            Signer::Machine(name) => name.clone(),
        },
    );
    for note in &manifest.notes {
        line("note:", note.clone());
    }
    if !found.is_right() {
        let all = found.differences.len() as u64 + found.differences_more;
        text.push_str(&format!("NOT AS THEY WERE PROVED: {}\n", units::count(all)));
        for (path, difference) in found.differences.iter().take(SHOWN) {
            text.push_str(&format!("  {path}: {difference}\n"));
        }
        let shown = found.differences.len().min(SHOWN) as u64;
        if all > shown {
            let more = units::count(all - shown);
            text.push_str(&format!("  and {more} more; --json names them\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::transfer::TreePath;
    use ::transfer::verify::{Change, Difference};

    #[test]
    fn what_differs_is_named() {
        let manifest = Manifest {
            version: Version::Two,
            notes: vec!["level device: it was read".to_owned()],
            files: 1204,
            bytes: 5 << 30,
            others: 31,
            signature: None,
        };
        let found = Verified {
            files: 1202,
            bytes: 4 << 30,
            others: 30,
            from_cache: 1,
            differences: vec![
                (TreePath::root().join(b"a\nb"), Difference::Rotten),
                (TreePath::root().join(b"c"), Difference::Missing),
                (TreePath::root().join(b"d"), Difference::Mode(0o755, 0o4755)),
                (TreePath::root().join(b"d"), Difference::Acl(Change::Gone)),
            ],
            differences_more: 0,
        };
        let signer = Signer::Machine("backup.example".to_owned());
        insta::assert_snapshot!(words(&manifest, &signer, &found));
        assert_eq!(
            json(&manifest, &signer, &found)["differences"][1]["path"],
            "c"
        );
    }
}
