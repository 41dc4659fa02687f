//! Connections that lose bytes, or change them, where a test says so.

use crate::clock::Moment;
use crate::errno::Errno;
use crate::net::{Address, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to what one side of a connection receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// Nothing.
    None,
    /// The connection is lost after so many bytes.
    Cut(u64),
    /// One bit of this byte is flipped.
    Flip(u64),
}

/// Does harm to what is received through `stream`, and counts in `received` what was.
pub fn harmed(stream: Arc<dyn Stream>, harm: Harm, received: Arc<AtomicU64>) -> Arc<dyn Stream> {
    Arc::new(Harmed {
        stream,
        harm,
        received,
    })
}

struct Harmed {
    stream: Arc<dyn Stream>,
    harm: Harm,
    received: Arc<AtomicU64>,
}

impl Stream for Harmed {
    fn peer(&self) -> &Address {
        self.stream.peer()
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> crate::Result<usize> {
        let before = self.received.load(Ordering::Relaxed);
        let most = match self.harm {
            Harm::Cut(at) => at.saturating_sub(before).min(buffer.len() as u64) as usize,
            Harm::None | Harm::Flip(_) => buffer.len(),
        };
        if most == 0 && !buffer.is_empty() {
            self.stream.close();
            return Err(Errno::CONNRESET);
        }
        let count = self.stream.receive(&mut buffer[..most], deadline)?;
        self.received.fetch_add(count as u64, Ordering::Relaxed);
        if let Harm::Flip(at) = self.harm
            && let Some(at) = at.checked_sub(before)
            && let Some(byte) = buffer[..count].get_mut(at as usize)
        {
            *byte ^= 1;
        }
        Ok(count)
    }

    fn send(&self, data: &[u8], deadline: Moment) -> crate::Result<()> {
        self.stream.send(data, deadline)
    }

    fn finish(&self) -> crate::Result<()> {
        self.stream.finish()
    }

    fn close(&self) {
        self.stream.close();
    }
}
