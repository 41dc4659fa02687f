//! A [`Session`] over a network, for threads that block.

use crate::session::{Sent, Session, StreamId, Taken};
use crate::{Hello, Limits, Message, Role, RpcError};
use env::errno::Errno;
use env::{Bell, Moment, Net, Stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
mod tests;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 256 << 10;

/// Bytes that [`Channel::exchange`] gathers before the thread that sends is woken for them.
const GATHERED_BYTES: usize = 64 << 10;

/// The code of a reset for a [`Channel`] that was dropped before its end.
const DROPPED: u32 = 0;

/// A connection with the threads that send and receive for it. Its calls may come from any
/// thread. Dropped, it is closed at once.
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    stream: Arc<dyn Stream>,
    session: Mutex<Session>,
    /// Whether the thread that sends knows that bytes wait; changed only with the session locked.
    told: AtomicBool,
    /// Rung whenever something has changed in the session.
    bell: Arc<dyn Bell>,
}

impl Shared {
    /// Looks at the session once. What is to be sent then may wait for more where `gathers` is set
    /// and there is an answer.
    fn look<T>(
        &self,
        gathers: bool,
        look: impl FnOnce(&mut Session) -> Result<Option<T>, RpcError>,
    ) -> Result<Option<T>, RpcError> {
        let (answer, tells) = {
            let mut session = self.session.lock();
            let answer = look(&mut session);
            let may_wait = gathers && matches!(answer, Ok(Some(_)));
            let least = if may_wait { GATHERED_BYTES } else { 1 };
            // The look may have led to bytes to be sent: credit, or the message itself.
            let tells = session.output_bytes() >= least && !self.told.swap(true, Ordering::Relaxed);
            (answer, tells)
        };
        if tells {
            self.bell.ring();
        }
        answer
    }

    /// Looks at the session until there is an answer.
    fn wait<T>(
        &self,
        deadline: Moment,
        gathers: bool,
        mut look: impl FnMut(&mut Session) -> Result<Option<T>, RpcError>,
    ) -> Result<T, RpcError> {
        loop {
            let seen = self.bell.count();
            if let Some(answer) = self.look(gathers, &mut look)? {
                return Ok(answer);
            }
            self.bell.wait(seen, deadline)?;
        }
    }

    fn receive_all(&self) {
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let arrived = self.stream.receive(&mut buffer, Moment::NEVER);
            let mut session = self.session.lock();
            let goes_on = match arrived {
                Ok(0) => {
                    session.feed_end();
                    false
                }
                Ok(count) => session
                    .feed(buffer.get(..count).unwrap_or_default())
                    .is_ok(),
                Err(errno) => {
                    session.fail(errno.into());
                    false
                }
            };
            drop(session);
            self.bell.ring();
            if !goes_on {
                return;
            }
        }
    }

    fn send_all(&self) {
        loop {
            let seen = self.bell.count();
            let (output, ended) = {
                let mut session = self.session.lock();
                self.told.store(false, Ordering::Relaxed);
                (session.take_output(), session.is_leaving())
            };
            if !output.is_empty() {
                let sent = self.stream.send(&output, Moment::NEVER);
                if let Err(errno) = sent {
                    self.session.lock().fail(errno.into());
                }
                self.bell.ring();
            } else if ended {
                // The peer learns that nothing more comes, once all was said. It fails only where
                // the connection is lost.
                let _lost = self.stream.finish();
                return;
            } else if self.bell.wait(seen, Moment::NEVER).is_err() {
                return;
            }
        }
    }
}

impl Connection {
    /// Starts to speak on a connection that was made; nothing is waited for.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn start(
        stream: Arc<dyn Stream>,
        net: &dyn Net,
        role: Role,
        limits: Limits,
    ) -> Result<Connection, RpcError> {
        let shared = Arc::new(Shared {
            stream,
            session: Mutex::new(Session::new(role, limits)),
            told: AtomicBool::new(false),
            bell: net.bell(),
        });
        // Dropped on an error, it ends the thread that was started.
        let connection = Connection {
            shared: shared.clone(),
        };
        let receiver = shared.clone();
        net.spawn("rpc receive", Box::new(move || receiver.receive_all()))?;
        net.spawn("rpc send", Box::new(move || shared.send_all()))?;
        Ok(connection)
    }

    /// What the peer said of itself, once it has.
    ///
    /// # Errors
    /// It speaks no common version, or not in time, or the connection is lost.
    pub fn peer(&self, deadline: Moment) -> Result<Hello, RpcError> {
        self.shared.wait(deadline, false, |session| {
            if let Some(hello) = session.peer().filter(|_| session.version().is_some()) {
                return Ok(Some(hello.clone()));
            }
            session.end().cloned().map_or(Ok(None), Err)
        })
    }

    /// Opens a stream by its first message.
    ///
    /// # Errors
    /// The peer allows no more streams, or the connection is lost.
    pub fn open(&self, body: &[u8], bulk: &[u8], deadline: Moment) -> Result<Channel, RpcError> {
        self.peer(deadline)?;
        let opened = |session: &mut Session| session.open(body, bulk);
        let id = self.shared.wait(deadline, false, opened)?;
        Ok(Channel::new(&self.shared, id))
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn accept(&self, deadline: Moment) -> Result<Channel, RpcError> {
        let id = self.shared.wait(deadline, false, |session| {
            if let Some(id) = session.accept() {
                return Ok(Some(id));
            }
            session.end().cloned().map_or(Ok(None), Err)
        })?;
        Ok(Channel::new(&self.shared, id))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// As [`Connection::open`]; the peer may have done what was asked all the same.
    pub fn call(&self, body: &[u8], bulk: &[u8], deadline: Moment) -> Result<Message, RpcError> {
        let channel = self.open(body, bulk, deadline)?;
        channel.finish()?;
        channel
            .receive(deadline)?
            .ok_or(RpcError::Violation("no answer"))
    }

    /// Leaves, and tells the peer why, in words for people.
    pub fn refuse(&self, why: &str) {
        self.shared.session.lock().refuse(why);
        self.shared.bell.ring();
    }

    /// Waits until all that was said is sent and the peer has ended its side too.
    ///
    /// # Errors
    /// The connection is lost, or the peer does not end it in time; it is closed all the same.
    pub fn close(self, deadline: Moment) -> Result<(), RpcError> {
        let ended = |session: &mut Session| Ok(session.end().cloned());
        self.shared.session.lock().leave();
        self.shared.bell.ring();
        match self.shared.wait(deadline, false, ended)? {
            RpcError::Ended => Ok(()),
            why => Err(why),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.session.lock().fail(RpcError::Closed);
        self.shared.stream.close();
        self.shared.bell.ring();
    }
}

/// A stream of a [`Connection`]. Dropped before both sides have finished, the peer is told that it
/// was given up.
pub struct Channel {
    shared: Arc<Shared>,
    id: StreamId,
}

impl Channel {
    fn new(shared: &Arc<Shared>, id: StreamId) -> Channel {
        Channel {
            shared: shared.clone(),
            id,
        }
    }

    /// Sends a message, once there is room for it.
    ///
    /// # Errors
    /// The peer gave the stream up, or the connection is lost. ETIMEDOUT as [`RpcError::Net`].
    pub fn send(&self, body: &[u8], bulk: &[u8], deadline: Moment) -> Result<(), RpcError> {
        self.shared.wait(deadline, false, |session| {
            match session.send(self.id, body, bulk)? {
                Sent::Yes => Ok(Some(())),
                Sent::NoRoom => Ok(None),
            }
        })
    }

    /// Sends a message once there is room for it, or takes one that came before there was; then
    /// nothing was sent. Two sides that send much to each other never wait for one another like
    /// this. Small messages are gathered, up to 64 KiB: they go at the latest with the next call of
    /// this side that waits, or that is another than this and [`Channel::try_receive`].
    ///
    /// # Errors
    /// As [`Channel::send`]; the peer has sent its last, and there is no room.
    pub fn exchange(
        &self,
        body: &[u8],
        bulk: &[u8],
        deadline: Moment,
    ) -> Result<Option<Message>, RpcError> {
        self.shared.wait(deadline, true, |session| {
            if session.send(self.id, body, bulk)? == Sent::Yes {
                return Ok(Some(None));
            }
            match session.take(self.id)? {
                Taken::Message(message) => Ok(Some(Some(message))),
                Taken::Finished => Err(RpcError::Ended),
                Taken::Nothing => Ok(None),
            }
        })
    }

    /// The next message; `None` where the peer has sent its last.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn receive(&self, deadline: Moment) -> Result<Option<Message>, RpcError> {
        self.shared
            .wait(deadline, false, |session| match session.take(self.id)? {
                Taken::Message(message) => Ok(Some(Some(message))),
                Taken::Finished => Ok(Some(None)),
                Taken::Nothing => Ok(None),
            })
    }

    /// The next message where one is there already.
    ///
    /// # Errors
    /// As [`Channel::receive`]; ETIMEDOUT where nothing is there.
    pub fn try_receive(&self) -> Result<Option<Message>, RpcError> {
        let take = |session: &mut Session| session.take(self.id).map(Some);
        match self.shared.look(true, take)? {
            Some(Taken::Message(message)) => Ok(Some(message)),
            Some(Taken::Finished) => Ok(None),
            Some(Taken::Nothing) | None => Err(Errno::TIMEDOUT.into()),
        }
    }

    /// Says that this side sends no more.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub fn finish(&self) -> Result<(), RpcError> {
        let finished = self.shared.session.lock().finish(self.id);
        self.shared.bell.ring();
        finished
    }

    /// Gives the stream up, with a code for the peer.
    pub fn reset(self, code: u32) {
        self.shared.session.lock().drop_stream(self.id, code);
        self.shared.bell.ring();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.shared.session.lock().drop_stream(self.id, DROPPED);
        self.shared.bell.ring();
    }
}
