//! A block device of a volume as the content of a file.

use crate::{Change, ObjectId, Volume, VolumeError};
use env::errno::{Errno, ErrorKind};
use mount::fixed::Content;
use std::sync::Arc;

/// An object of a volume that has a fixed size. Each write, and each range of zeros, is one group.
pub struct Device {
    volume: Arc<Volume>,
    object: ObjectId,
    size: u64,
}

impl Device {
    /// The device that this object is; its size stays what it is now.
    ///
    /// # Errors
    /// [`VolumeError::NoObject`].
    pub fn new(volume: Arc<Volume>, object: ObjectId) -> crate::Result<Device> {
        let size = volume.size(object);
        Ok(Device {
            size: size.ok_or(VolumeError::NoObject { object })?,
            object,
            volume,
        })
    }

    fn one(&self, change: Change<'_>) -> mount::Result<()> {
        self.volume
            .commit(&[change])
            .map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &VolumeError) -> Errno {
        tracing::debug!(object = %self.object, %error, "a request of the device failed");
        match error.kind() {
            ErrorKind::NoSpace => Errno::NOSPC,
            ErrorKind::Misuse if *error == VolumeError::ReadOnly => Errno::ROFS,
            _ => Errno::IO,
        }
    }
}

impl Content for Device {
    fn size(&self) -> u64 {
        self.size
    }

    fn allocated(&self) -> u64 {
        self.volume.allocated(self.object)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> mount::Result<()> {
        self.volume
            .read(self.object, offset, buffer)
            .map_err(|error| self.explain(&error))
    }

    fn write(&self, offset: u64, data: &[u8]) -> mount::Result<()> {
        self.one(Change::Write {
            object: self.object,
            offset,
            bytes: data,
        })
    }

    /// The room of whole blocks is given back in any case: an overwrite needs room as a first
    /// write does, so blocks of zeros that are kept would guarantee nothing.
    fn zero(&self, offset: u64, length: u64, _: bool) -> mount::Result<()> {
        self.one(Change::Zero {
            object: self.object,
            offset,
            length,
        })
    }

    fn sync(&self) -> mount::Result<()> {
        self.volume.sync().map_err(|error| self.explain(&error))
    }

    fn extent(&self, offset: u64) -> (bool, u64) {
        self.volume.extent(self.object, offset)
    }
}
