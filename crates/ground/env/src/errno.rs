//! What an error number means.

pub use rustix::io::Errno;

/// Who is to blame for an error number, and so what to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The request was wrong (no such name, no permission, ...): the same on every copy.
    Caller,
    /// Try again (interrupted, out of memory for a moment).
    Transient,
    /// The medium has no room.
    NoSpace,
    /// The medium or the way to it has failed: never trust it again without recovery.
    Medium,
}

/// What the caller of a Holdfast crate can do about an error; the answer of every `kind()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The same call may succeed later.
    Transient,
    /// Bytes on the medium are not what was written.
    Corrupt,
    /// Room must be made first.
    NoSpace,
    /// The call itself was wrong.
    Misuse,
    /// The handle or its medium is lost; only recovery decides what holds.
    Fatal,
}

impl From<Fault> for ErrorKind {
    fn from(fault: Fault) -> ErrorKind {
        match fault {
            Fault::Caller => ErrorKind::Misuse,
            Fault::Transient => ErrorKind::Transient,
            Fault::NoSpace => ErrorKind::NoSpace,
            Fault::Medium => ErrorKind::Fatal,
        }
    }
}

/// Sorts an error number of a file-system call. What is not known to be harmless counts against
/// the medium: to fence a good store costs a resynchronisation, to trust a bad one costs data.
pub fn fault(errno: Errno) -> Fault {
    match errno {
        // The name, the object's type or the permissions forbid it; every copy would answer so.
        Errno::NOENT
        | Errno::EXIST
        | Errno::NOTEMPTY
        | Errno::PERM
        | Errno::ACCESS
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::XDEV
        | Errno::MLINK => Fault::Caller,
        // The argument is out of the call's range, or the call is not for this object.
        Errno::INVAL
        | Errno::NODATA
        | Errno::RANGE
        | Errno::OPNOTSUPP
        | Errno::TOOBIG
        | Errno::FBIG
        | Errno::NXIO => Fault::Caller,
        // Somebody else uses the object; the medium is sound.
        Errno::TXTBSY | Errno::BUSY => Fault::Caller,
        // A signal, or a shortage of the kernel's or the process's own resources, not the disk's.
        Errno::INTR | Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Fault::Transient,
        // The disk or the user's quota on it is full.
        Errno::NOSPC | Errno::DQUOT => Fault::NoSpace,
        // The device answers wrongly or no more (IO, REMOTEIO, TIMEDOUT, NODEV, NOTCONN,
        // SHUTDOWN), the file system found itself damaged and stopped (ROFS, UCLEAN, BADMSG), the
        // object behind a handle is not the one it was (STALE), or our own call was malformed
        // (FAULT, BADF), after which nothing about the data is known.
        Errno::IO
        | Errno::ROFS
        | Errno::NODEV
        | Errno::STALE
        | Errno::UCLEAN
        | Errno::BADMSG
        | Errno::NOTCONN
        | Errno::SHUTDOWN
        | Errno::REMOTEIO
        | Errno::TIMEDOUT
        | Errno::FAULT
        | Errno::BADF => Fault::Medium,
        _ => Fault::Medium,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_group_is_sorted_and_the_unknown_count_against_the_medium() {
        let cases = [
            (Errno::NOENT, Fault::Caller),
            (Errno::NXIO, Fault::Caller),
            (Errno::BUSY, Fault::Caller),
            (Errno::NOMEM, Fault::Transient),
            (Errno::DQUOT, Fault::NoSpace),
            (Errno::ROFS, Fault::Medium),
            (Errno::from_raw_os_error(4000), Fault::Medium),
        ];
        for (errno, expected) in cases {
            assert_eq!(fault(errno), expected, "{errno}");
        }
    }
}
