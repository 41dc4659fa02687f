//! Write-back that is started and not waited for.

use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel begin to write a file's dirty pages. It makes nothing durable and waits for
/// nothing; a sync that follows on the same file waits less. Errors are left to that sync: the
/// kernel keeps them for it.
pub fn start(file: impl AsFd) {
    #[expect(unsafe_code, reason = "rustix does not offer sync_file_range")]
    // SAFETY: the descriptor is open while it is borrowed; no memory is passed.
    let _ = unsafe {
        libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE)
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_written_stays_readable() {
        let path = std::env::temp_dir().join(format!("holdfast-writeback-{}", std::process::id()));
        std::fs::write(&path, b"data").expect("writes");
        super::start(std::fs::File::open(&path).expect("opens"));
        let read = std::fs::read(&path);
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(read.expect("reads"), b"data");
    }
}
