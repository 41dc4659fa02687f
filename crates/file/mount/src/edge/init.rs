//! What is agreed with the kernel at the start.

use super::Edge;
use fuser::{InitFlags, KernelConfig};
use std::io::Error;

/// Largest write and read of one request, in bytes.
const TRANSFER_BYTES: u32 = 1 << 20;

/// Requests that the kernel may have in flight for readahead and asynchronous direct I/O.
const BACKGROUND: u16 = 64;

/// What the kernel can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// Whether it knows `FUSE_NOTIFY_PRUNE` (protocol 7.45).
    pub(crate) prune: bool,
    /// Whether files that are opened for direct I/O can be mapped all the same (Linux 6.6).
    pub(crate) direct_maps: bool,
}

/// What the mount cannot do without; all are in Linux 5.11.
const REQUIRED: InitFlags = InitFlags::FUSE_DONT_MASK
    .union(InitFlags::FUSE_POSIX_ACL)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_EXPLICIT_INVAL_DATA)
    .union(InitFlags::FUSE_NO_OPEN_SUPPORT)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2);

/// What makes it faster where it is there.
///
/// `FUSE_HANDLE_KILLPRIV_V2` above is more than speed: without it the kernel asks for
/// `security.capability` before every single write. Not here: the write-back cache (an
/// acknowledged write must have reached the layer), passthrough (writes through a shared mapping
/// would bypass the layer), and `FUSE_ATOMIC_O_TRUNC` (there is no open to carry it).
const WANTED: InitFlags = InitFlags::FUSE_ASYNC_DIO
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

impl Edge {
    pub(super) fn negotiate(&self, config: &mut KernelConfig) -> std::io::Result<()> {
        if let Err(missing) = config.add_capabilities(REQUIRED) {
            let missing = format!("{missing:?}");
            let _ = self.shared.missing.set(missing.clone());
            return Err(Error::other(missing));
        }
        let offered = config.capabilities();
        for flag in WANTED.iter().filter(|flag| offered.contains(*flag)) {
            // Offered, so it cannot be refused.
            let _ = config.add_capabilities(flag);
        }
        if let Err(nearest) = config.set_max_write(TRANSFER_BYTES) {
            let _ = config.set_max_write(nearest);
        }
        if let Err(nearest) = config.set_max_readahead(TRANSFER_BYTES) {
            let _ = config.set_max_readahead(nearest);
        }
        let _ = config.set_max_background(BACKGROUND);
        let version = config.kernel_abi();
        let prune = (version.0, version.1) >= (7, 45);
        let kernel = Kernel {
            prune,
            direct_maps: offered.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP),
        };
        let _ = self.shared.kernel.set(kernel);
        Ok(())
    }
}
