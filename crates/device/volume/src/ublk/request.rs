//! What the kernel asks of a device, and what is done for it.

use env::errno::Errno;
use libublk::sys;
use mount::fixed::Content;

/// Sectors of the interface have this many bytes, whatever those of the device have.
const SECTOR_BYTES: u64 = 512;

/// The lowest bits of the flags are the operation (`ublksrv_get_op` of include/uapi/linux/ublk_cmd.h).
const OPERATION: u32 = 0xff;

/// A request as the kernel describes it (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The operation and its flags.
    pub flags: u32,
    /// Where, in sectors of 512 bytes.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u32,
}

/// What a request comes down to. Offsets and lengths are in bytes, inside of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Fill the first `length` bytes of the buffer.
    Read {
        /// Where.
        offset: u64,
        /// How many, at most those of the buffer.
        length: usize,
    },
    /// Write the first `length` bytes of the buffer.
    Write {
        /// Where.
        offset: u64,
        /// How many, at most those of the buffer.
        length: usize,
        /// Before the answer.
        durable: bool,
    },
    /// Make a range zeros.
    Zero {
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
        /// Whether its room may be given back.
        free: bool,
        /// Before the answer.
        durable: bool,
    },
    /// Make durable what was answered.
    Flush,
}

impl Action {
    /// What this request asks of a device of `size` bytes whose requests have buffers of
    /// `buffer_bytes`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for operations that the device has not offered, `EINVAL` for ranges that are not
    /// in the device, or not in the buffer.
    pub fn of(request: Request, size: u64, buffer_bytes: usize) -> Result<Action, Errno> {
        let durable = request.flags & sys::UBLK_IO_F_FUA != 0;
        let operation = request.flags & OPERATION;
        if operation == sys::UBLK_IO_OP_FLUSH {
            return Ok(Action::Flush);
        }
        let length = u64::from(request.sectors) * SECTOR_BYTES;
        let offset = request.sector.checked_mul(SECTOR_BYTES);
        let offset = offset.ok_or(Errno::INVAL)?;
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Errno::INVAL);
        }
        let in_buffer = || {
            let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
            match length <= buffer_bytes {
                true => Ok(length),
                false => Err(Errno::INVAL),
            }
        };
        match operation {
            sys::UBLK_IO_OP_READ => Ok(Action::Read {
                offset,
                length: in_buffer()?,
            }),
            sys::UBLK_IO_OP_WRITE => Ok(Action::Write {
                offset,
                length: in_buffer()?,
                durable,
            }),
            sys::UBLK_IO_OP_DISCARD => Ok(Action::Zero {
                offset,
                length,
                free: true,
                durable,
            }),
            sys::UBLK_IO_OP_WRITE_ZEROES => Ok(Action::Zero {
                offset,
                length,
                free: request.flags & sys::UBLK_IO_F_NOUNMAP == 0,
                durable,
            }),
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

/// Does what a request asks. The answer is as the driver wants it: the bytes that were read, written
/// or made zeros, or an error number with its sign changed.
pub fn answer(content: &dyn Content, request: Request, buffer: &mut [u8]) -> i32 {
    let done = Action::of(request, content.size(), buffer.len())
        .and_then(|action| execute(content, action, buffer));
    match done {
        // A range of zeros may be longer than the number can say; the driver looks at its sign only.
        Ok(bytes) => i32::try_from(bytes).unwrap_or(i32::MAX),
        Err(errno) => -errno.raw_os_error(),
    }
}

fn execute(content: &dyn Content, action: Action, buffer: &mut [u8]) -> Result<u64, Errno> {
    let (bytes, durable) = match action {
        Action::Read { offset, length } => {
            let wanted = buffer.get_mut(..length).ok_or(Errno::INVAL)?;
            content.read(offset, wanted)?;
            (length as u64, false)
        }
        Action::Write {
            offset,
            length,
            durable,
        } => {
            let data = buffer.get(..length).ok_or(Errno::INVAL)?;
            content.write(offset, data)?;
            (length as u64, durable)
        }
        Action::Zero {
            offset,
            length,
            free,
            durable,
        } => {
            content.zero(offset, length, free)?;
            (length, durable)
        }
        Action::Flush => (0, true),
    };
    if durable {
        content.sync()?;
    }
    Ok(bytes)
}
