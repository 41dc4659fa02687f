//! Kernel file handles (`open_by_handle_at(2)`) and the extended-attribute calls that take a
//! directory and a name: references to objects that stay valid when names change.

use crate::Result;
use crate::errno::Errno;
use rustix::fs::OFlags;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest handle that this module passes on, with its leading type byte. (ext4 needs 9, XFS 13,
/// btrfs up to 41; the kernel's own limit is 128.)
pub const HANDLE_BYTES_MAX: usize = 64;

/// A kernel file handle: the handle type in one byte, then the handle's own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    /// A handle that [`Handle::as_bytes`] gave; `None` for a length that no handle has.
    pub fn from_bytes(bytes: &[u8]) -> Option<Handle> {
        let mut handle = Handle {
            length: u8::try_from(bytes.len())
                .ok()
                .filter(|length| *length > 0)?,
            bytes: [0; HANDLE_BYTES_MAX],
        };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Type byte and handle bytes; 1 to [`HANDLE_BYTES_MAX`] of them.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// `struct file_handle` with room for [`HANDLE_BYTES_MAX`].
#[repr(C)]
struct RawHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; HANDLE_BYTES_MAX],
}

/// Turns a C result into an errno result.
fn check(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    let number = std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO);
    Err(Errno::from_raw_os_error(number))
}

/// The handle of `name` in `dir` (an empty name: of `dir` itself) and the id of the mount that it
/// was found on. A symbolic link is not followed. EOPNOTSUPP where the file system has no handles
/// and EOVERFLOW where its handles are longer than [`HANDLE_BYTES_MAX`] allows.
pub fn name_to_handle(dir: BorrowedFd<'_>, name: &CStr) -> Result<(Handle, i32)> {
    let mut raw = RawHandle {
        handle_bytes: HANDLE_BYTES_MAX as libc::c_uint - 1,
        handle_type: 0,
        f_handle: [0; HANDLE_BYTES_MAX],
    };
    let mut mount_id: libc::c_int = 0;
    #[expect(unsafe_code, reason = "rustix has no name_to_handle_at")]
    // SAFETY: `raw` has the layout of struct file_handle with at least `handle_bytes` bytes behind
    // the header, which is all the kernel writes; `name` ends with NUL; `mount_id` is an int.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            dir.as_raw_fd(),
            name.as_ptr(),
            (&raw mut raw).cast::<libc::c_void>(),
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    };
    check(result)?;
    let length = raw.handle_bytes as usize;
    let kind = u8::try_from(raw.handle_type).map_err(|_| Errno::OVERFLOW)?;
    let mut handle = Handle {
        length: 0,
        bytes: [0; HANDLE_BYTES_MAX],
    };
    let (Some(source), Some(target)) =
        (raw.f_handle.get(..length), handle.bytes.get_mut(1..=length))
    else {
        return Err(Errno::OVERFLOW);
    };
    target.copy_from_slice(source);
    handle.bytes[0] = kind;
    handle.length = u8::try_from(length + 1).map_err(|_| Errno::OVERFLOW)?;
    Ok((handle, mount_id))
}

/// Opens the object behind a handle of the file system that `mount` is on. Needs
/// CAP_DAC_READ_SEARCH. ESTALE where the object is gone or the bytes are no handle.
pub fn open_by_handle(mount: BorrowedFd<'_>, bytes: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let (&kind, handle) = bytes.split_first().ok_or(Errno::STALE)?;
    let mut raw = RawHandle {
        handle_bytes: handle.len() as libc::c_uint,
        handle_type: libc::c_int::from(kind),
        f_handle: [0; HANDLE_BYTES_MAX],
    };
    raw.f_handle
        .get_mut(..handle.len())
        .ok_or(Errno::STALE)?
        .copy_from_slice(handle);
    #[expect(unsafe_code, reason = "rustix has no open_by_handle_at")]
    // SAFETY: `raw` has the layout of struct file_handle and holds `handle_bytes` bytes; the
    // kernel only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            (&raw mut raw).cast::<libc::c_void>(),
            (flags | OFlags::CLOEXEC).bits() as libc::c_int,
        )
    };
    let descriptor = RawFd::try_from(check(result)?).map_err(|_| Errno::OVERFLOW)?;
    #[expect(unsafe_code, reason = "the kernel hands over a new descriptor")]
    // SAFETY: the call succeeded, so the number is a new descriptor that nobody else owns.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(owned)
}

/// `getxattrat(2)` (Linux 6.13): include/uapi/asm-generic/unistd.h, the same on every
/// architecture that Linux numbers by that table, x86-64 included.
const SYS_GETXATTRAT: libc::c_long = 464;

/// `struct xattr_args` of include/uapi/linux/xattr.h.
#[repr(C, align(8))]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

static NO_GETXATTRAT: AtomicBool = AtomicBool::new(false);

/// Reads extended attribute `attribute` of `name` in `dir` (an empty name: of `dir` itself, which
/// may be an O_PATH descriptor of any type) into `value` and returns its length. A symbolic link
/// is not followed. ENODATA where it is not set, ERANGE where it is longer than `value`.
pub fn get_xattr(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize> {
    // With an empty name the call wants a descriptor that is open for reading, which O_PATH is not.
    if !name.is_empty() && !NO_GETXATTRAT.load(Ordering::Relaxed) {
        match get_xattr_at(dir, name, attribute, value) {
            Err(Errno::NOSYS) => NO_GETXATTRAT.store(true, Ordering::Relaxed),
            result => return result,
        }
    }
    let path = proc_path(dir, name)?;
    if name.is_empty() {
        // The magic link leads to the object itself, also where that is a symbolic link.
        rustix::fs::getxattr(path.as_c_str(), attribute, value)
    } else {
        rustix::fs::lgetxattr(path.as_c_str(), attribute, value)
    }
}

fn get_xattr_at(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize> {
    let mut args = XattrArgs {
        value: value.as_mut_ptr() as u64,
        size: u32::try_from(value.len()).unwrap_or(u32::MAX),
        flags: 0,
    };
    #[expect(unsafe_code, reason = "rustix has no getxattrat")]
    // SAFETY: both strings end with NUL; `args` has the layout of struct xattr_args and points to
    // `size` writable bytes that outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            dir.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            attribute.as_ptr(),
            &raw mut args,
            size_of::<XattrArgs>(),
        )
    };
    usize::try_from(check(result)?).map_err(|_| Errno::OVERFLOW)
}

/// A path that leads to `name` in `dir`, or for an empty name to `dir` itself, whatever it is
/// called now: for system calls that have no form relative to a directory.
pub fn proc_path(dir: BorrowedFd<'_>, name: &CStr) -> Result<CString> {
    let mut path = format!("/proc/self/fd/{}", dir.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name.to_bytes());
    }
    CString::new(path).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests;
