//! A umask per thread.
//!
//! The umask belongs to the process as a whole; a server that creates files for many callers
//! needs one per call, so that the file system below applies the rule itself (the umask does not
//! count in a directory with a default ACL).

use crate::Result;
use crate::errno::Errno;
use rustix::fs::Mode;
use std::cell::Cell;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `action` with this umask (9 bits) on this thread alone and puts the old one back. From
/// the first call on, the thread has its own umask, root and working directory.
pub fn with<R>(mask: u32, action: impl FnOnce() -> R) -> Result<R> {
    if !OWN.get() {
        #[expect(unsafe_code, reason = "rustix offers unshare only as an unsafe call")]
        // SAFETY: CLONE_FS copies umask, root and working directory for this thread; no memory
        // or descriptor is affected.
        let result = unsafe { libc::unshare(libc::CLONE_FS) };
        if result != 0 {
            let error = std::io::Error::last_os_error().raw_os_error();
            return Err(Errno::from_raw_os_error(error.unwrap_or(libc::EPERM)));
        }
        OWN.set(true);
    }
    let _restore = Restore(rustix::process::umask(Mode::from_raw_mode(mask & 0o777)));
    Ok(action())
}

/// Puts the umask back, also when the action panics.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        rustix::process::umask(self.0);
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    fn current() -> u32 {
        let mask = rustix::process::umask(Mode::empty());
        rustix::process::umask(mask);
        mask.bits()
    }

    #[test]
    fn another_thread_keeps_its_umask() {
        let before = super::with(0o022, current).expect("sets");
        assert_eq!(before, 0o022);
        let (seen, after) = std::thread::scope(|scope| {
            let inner = scope.spawn(|| {
                let seen = super::with(0o057, current).expect("sets");
                (seen, current())
            });
            inner.join().expect("joins")
        });
        assert_eq!(seen, 0o057);
        assert_ne!(after, 0o057);
    }
}
