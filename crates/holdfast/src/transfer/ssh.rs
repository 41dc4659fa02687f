//! To another machine through the user's own `ssh`, with its configuration, keys and known hosts.

use super::destination::Host;
use super::{FAREWELL, SendArgs, explain};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use ::transfer::{Options, Progress, Report, TransferError};
use env::Clock;
use env::real::{RealClock, RealNet, connected_child};
use rpc::{Connection, Limits, Role, RpcError};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts the receiver on the other machine and sends to it.
pub(super) fn send(
    args: &SendArgs,
    host: &Host,
    options: &Options,
    show: &mut dyn FnMut(Progress),
) -> Outcome<Report> {
    let (stream, end) =
        connected_child().map_err(|error| Failure::unexpected("a pair of sockets", &error))?;
    let second = end
        .try_clone()
        .map_err(|error| Failure::unexpected("a pair of sockets", &error))?;
    let mut words = args.ssh.split_whitespace();
    let program = words.next().unwrap_or("ssh");
    let mut command = Command::new(program);
    command.args(words);
    if let Some(port) = host.port {
        command.args(["-p", &port.to_string()]);
    }
    let bare = host.name.trim_start_matches('[').trim_end_matches(']');
    command.args([OsStr::new("--"), OsStr::new(bare)]);
    let sign = args.remote_sign.as_deref();
    command.arg(remote(&args.remote_holdfast, sign, host));
    command.stdin(Stdio::from(end)).stdout(Stdio::from(second));
    let mut child = command.spawn().map_err(|error| {
        Failure::refuse(
            Exit::TransferRefused,
            format!("{program} cannot be started: {}", crate::os::words(&error)),
            "install it (Debian: openssh-client), or name another by --ssh",
        )
    })?;
    // Its copies of the other end have to go, so that the end of ssh is seen.
    drop(command);
    let started = Connection::start(stream, &RealNet, Role::Client, Limits::default());
    let connection = started.map_err(|error| explain(&error.into()))?;
    let sent = ::transfer::send(&args.source, &connection, &RealClock, options, show);
    let _ended = connection.close(RealClock.now().after(FAREWELL));
    let status = child.wait();
    sent.map_err(|error| match (&error, status) {
        (TransferError::Rpc(RpcError::Ended | RpcError::Net(_)), Ok(status))
            if !status.success() =>
        {
            ended(program, host, status.code())
        }
        _ => explain(&error),
    })
}

/// What the other machine's shell gets.
fn remote(holdfast: &str, sign: Option<&Path>, host: &Host) -> OsString {
    let mut line = Vec::from(holdfast.as_bytes());
    line.extend_from_slice(b" receive --stdio ");
    if let Some(dir) = sign {
        line.extend_from_slice(b"--sign ");
        line.extend_from_slice(&quoted(dir.as_os_str().as_bytes()));
        line.push(b' ');
    }
    line.extend_from_slice(b"-- ");
    line.extend_from_slice(&quoted(host.path.as_os_str().as_bytes()));
    OsString::from_vec(line)
}

/// One word to any shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

fn ended(program: &str, host: &Host, code: Option<i32>) -> Failure {
    let code = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
    Failure {
        what: format!("{program} to {} ended with {code}", host.name),
        safe: "every file under its own name in the destination is whole".to_owned(),
        next: format!(
            "what {program} or the other machine said stands above; try `ssh {} holdfast --version`\n\
             (--remote-holdfast names where holdfast is there); then the same command goes on",
            host.name
        ),
        exit: Exit::TransferStopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_one_word_of_the_shell() {
        let host = Host {
            name: "h".to_owned(),
            port: None,
            path: "/a b/$(c)'d'".into(),
        };
        assert_eq!(
            remote("holdfast", None, &host),
            "holdfast receive --stdio -- '/a b/$(c)'\\''d'\\'''"
        );
        assert_eq!(
            remote("holdfast", Some(Path::new("/k k")), &host),
            "holdfast receive --stdio --sign '/k k' -- '/a b/$(c)'\\''d'\\'''"
        );
    }
}
