//! Readiness to the service manager, as sd_notify(3) describes it.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Name of the variable that holds the socket's address.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the service manager, where there is one, that the service is ready.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={status}\n"));
}

/// Tells it that the service is stopping.
pub fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping\n");
}

/// Tells it a line for `systemctl status`.
pub fn status(text: &str) {
    tell(&format!("STATUS={text}\n"));
}

fn tell(message: &str) {
    let Some(socket) = std::env::var_os(VARIABLE) else {
        return;
    };
    if let Err(error) = send(&socket, message) {
        tracing::warn!(%error, "the service manager was not told: {}", message.trim_end());
    }
}

fn send(socket: &OsStr, message: &str) -> std::io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_socket_are_reached() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("notify");
        let abstract_name = format!("holdfast-notify-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&abstract_name).expect("a short name");
        let receivers = [
            (
                path.clone().into_os_string(),
                UnixDatagram::bind(&path).expect("a socket"),
            ),
            (
                format!("@{abstract_name}").into(),
                UnixDatagram::bind_addr(&by_name).expect("a socket"),
            ),
        ];
        for (name, receiver) in receivers {
            send(&name, "READY=1\n").expect("a receiver");
            let mut buffer = [0; 64];
            let length = receiver.recv(&mut buffer).expect("a message");
            assert_eq!(&buffer[..length], b"READY=1\n");
        }
    }
}
