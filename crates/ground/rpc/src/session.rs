//! A connection without its I/O: bytes in, messages out, and the reverse.

use crate::RpcError;
use crate::header::{self, BODY_MAX, BULK_MAX, HEADER_BYTES, Header, Kind, Role, expect};
use crate::hello::{Hello, Limits};
use codec::crc32c;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

mod input;
#[cfg(test)]
mod plant;
#[cfg(test)]
mod tests;

use input::{Frame, Input};

/// Bytes that wait to go out before a sender waits for room.
pub const BACKLOG_BYTES: usize = 2 << 20;

/// Bytes of a reason for people.
const REASON_MAX: usize = 1024;

/// A stream of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// What travels on a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// At most [`BODY_MAX`] bytes, postcard by agreement.
    pub body: Vec<u8>,
    /// At most [`BULK_MAX`] bytes, raw.
    pub bulk: Vec<u8>,
}

impl Message {
    fn cost(&self) -> u64 {
        cost(self.body.len(), self.bulk.len())
    }
}

fn cost(body_bytes: usize, bulk_bytes: usize) -> u64 {
    (HEADER_BYTES + body_bytes + bulk_bytes) as u64
}

/// Whether a message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// It is on its way.
    Yes,
    /// The peer has to take something first, or the network.
    NoRoom,
}

/// What a stream has for its reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The next message.
    Message(Message),
    /// The peer has sent its last.
    Finished,
    /// Nothing yet.
    Nothing,
}

#[derive(Debug, Default)]
struct State {
    /// What may still be sent.
    credit_out: u64,
    /// What the peer may still send.
    credit_in: u64,
    /// What was taken and not given back as credit.
    taken: u64,
    inbox: VecDeque<Message>,
    finished_out: bool,
    finished_in: bool,
    reset: Option<u32>,
}

/// One side of a connection.
pub struct Session {
    role: Role,
    ours: Hello,
    theirs: Option<Hello>,
    version: Option<u16>,
    input: Input,
    output: Vec<u8>,
    sequence_out: u64,
    streams: BTreeMap<StreamId, State>,
    opened: VecDeque<StreamId>,
    /// The number of the next stream that this side opens.
    next: u32,
    /// The highest number of a stream that the peer has opened.
    highest_of_peer: u32,
    end: Option<RpcError>,
    leaving: bool,
    #[cfg(test)]
    plant: plant::Plant,
}

impl Session {
    /// A connection on which nothing was said; its hello waits in the output.
    pub fn new(role: Role, limits: Limits) -> Session {
        let ours = Hello::ours(limits);
        let mut session = Session {
            role,
            theirs: None,
            version: None,
            input: Input::default(),
            output: Vec::new(),
            sequence_out: 0,
            streams: BTreeMap::new(),
            opened: VecDeque::new(),
            next: match role {
                Role::Client => 1,
                Role::Server => 2,
            },
            highest_of_peer: 0,
            end: None,
            leaving: false,
            ours,
            #[cfg(test)]
            plant: plant::Plant::None,
        };
        session.control(Kind::Hello, 0, &session.ours.clone());
        session
    }

    /// The version of frames, once both hellos are known.
    pub fn version(&self) -> Option<u16> {
        self.version
    }

    /// What the peer said of itself.
    pub fn peer(&self) -> Option<&Hello> {
        self.theirs.as_ref()
    }

    /// Why the connection does not go on; `None` while it does.
    pub fn end(&self) -> Option<&RpcError> {
        self.end.as_ref()
    }

    /// Ends the connection, unless it has ended; the first reason counts.
    pub fn fail(&mut self, why: RpcError) {
        self.end.get_or_insert(why);
    }

    /// Says goodbye with a reason for people, and nothing after it.
    pub fn refuse(&mut self, why: &str) {
        let mut reason = why.to_owned();
        let mut length = REASON_MAX.min(reason.len());
        while !reason.is_char_boundary(length) {
            length -= 1;
        }
        reason.truncate(length);
        self.control(Kind::Refuse, 0, &reason);
        self.leave();
    }

    /// This side has nothing more to say than what waits in the output.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether nothing more comes from this side.
    pub fn is_leaving(&self) -> bool {
        self.leaving || self.end.is_some()
    }

    /// Takes bytes that have arrived.
    ///
    /// # Errors
    /// They are not what a peer sends: the connection has ended.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), RpcError> {
        self.alive()?;
        self.input.push(bytes);
        let outcome = self.process();
        if let Err(error) = &outcome {
            if !matches!(error, RpcError::Refused(_)) {
                let reason = error.to_string();
                self.refuse(&reason);
            }
            self.fail(error.clone());
        }
        outcome
    }

    /// The peer sends no more bytes.
    pub fn feed_end(&mut self) {
        self.fail(RpcError::Ended);
    }

    /// Bytes to be sent, all of them; empty where there are none.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes wait to be sent.
    pub fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// Opens a stream by its first message; `None` where the message has to wait for room.
    ///
    /// # Errors
    /// The peer allows no more streams, the message is too long, or the connection has ended.
    pub fn open(&mut self, body: &[u8], bulk: &[u8]) -> Result<Option<StreamId>, RpcError> {
        self.may_send()?;
        check_length(body, bulk)?;
        let theirs = self.theirs.as_ref().ok_or(RpcError::Closed)?;
        let (window, most) = (u64::from(theirs.window_bytes), theirs.streams_max);
        let parity = self.next % 2;
        let held = |(id, state): (&StreamId, &State)| id.0 % 2 == parity && !state.is_over();
        if self.streams.iter().filter(|entry| held(*entry)).count() >= usize::from(most) {
            return Err(RpcError::StreamsInUse(most));
        }
        if self.output.len() >= BACKLOG_BYTES {
            return Ok(None);
        }
        let id = StreamId(self.next);
        // Four billion streams on one connection are out of reach of its owners.
        self.next = self.next.checked_add(2).ok_or(RpcError::Closed)?;
        let state = State {
            credit_out: window.saturating_sub(cost(body.len(), bulk.len())),
            credit_in: u64::from(self.ours.window_bytes),
            ..State::default()
        };
        self.streams.insert(id, state);
        self.frame(Kind::Open, id.0, body, bulk);
        Ok(Some(id))
    }

    /// The next stream that the peer has opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.opened.pop_front()
    }

    /// Sends a message, where there is room.
    ///
    /// # Errors
    /// The message is too long, or stream or connection have ended.
    pub fn send(&mut self, id: StreamId, body: &[u8], bulk: &[u8]) -> Result<Sent, RpcError> {
        self.may_send()?;
        check_length(body, bulk)?;
        let cost = cost(body.len(), bulk.len());
        let full = self.output.len() >= BACKLOG_BYTES;
        let state = self.state(id)?;
        if state.finished_out {
            return Err(RpcError::Closed);
        }
        if full || cost > state.credit_out {
            return Ok(Sent::NoRoom);
        }
        state.credit_out -= cost;
        self.frame(Kind::Message, id.0, body, bulk);
        Ok(Sent::Yes)
    }

    /// Says that nothing more comes on a stream from this side.
    ///
    /// # Errors
    /// Stream or connection have ended.
    pub fn finish(&mut self, id: StreamId) -> Result<(), RpcError> {
        self.may_send()?;
        let state = self.state(id)?;
        if !std::mem::replace(&mut state.finished_out, true) {
            self.frame(Kind::Finish, id.0, &[], &[]);
        }
        Ok(())
    }

    /// What has come on a stream, up to a reset; credit for it goes back to the peer.
    ///
    /// # Errors
    /// The stream was reset, or the connection ended before the peer's finish.
    pub fn take(&mut self, id: StreamId) -> Result<Taken, RpcError> {
        let window = u64::from(self.ours.window_bytes);
        let (end, speaks) = (self.end.clone(), self.may_send().is_ok());
        let state = self.streams.get_mut(&id).ok_or(RpcError::Closed)?;
        if let Some(message) = state.inbox.pop_front() {
            state.taken += message.cost();
            // A quarter at a time keeps the frames of credit few and the peer going.
            if state.taken * 4 >= window && !state.finished_in && state.reset.is_none() && speaks {
                let more = std::mem::take(&mut state.taken);
                state.credit_in += more;
                let more = u32::try_from(more).unwrap_or(u32::MAX);
                self.control(Kind::Credit, id.0, &more);
            }
            return Ok(Taken::Message(message));
        }
        if state.finished_in {
            return Ok(Taken::Finished);
        }
        if let Some(code) = state.reset {
            return Err(RpcError::Reset(code));
        }
        match end {
            Some(why) => Err(why),
            None => Ok(Taken::Nothing),
        }
    }

    /// Gives a stream up: where it is not over, the peer gets a reset with this code.
    pub fn drop_stream(&mut self, id: StreamId, code: u32) {
        let Some(state) = self.streams.get_mut(&id) else {
            return;
        };
        let over = state.is_over();
        if !over && self.may_send().is_ok() {
            self.control(Kind::Reset, id.0, &code);
        }
        self.streams.remove(&id);
    }

    fn alive(&self) -> Result<(), RpcError> {
        self.end.clone().map_or(Ok(()), Err)
    }

    /// Whether this side may still send.
    fn may_send(&self) -> Result<(), RpcError> {
        self.alive()?;
        if self.leaving {
            return Err(RpcError::Closed);
        }
        Ok(())
    }

    fn state(&mut self, id: StreamId) -> Result<&mut State, RpcError> {
        let state = self.streams.get_mut(&id).ok_or(RpcError::Closed)?;
        match state.reset {
            Some(code) => Err(RpcError::Reset(code)),
            None => Ok(state),
        }
    }

    fn frame(&mut self, kind: Kind, stream: u32, body: &[u8], bulk: &[u8]) {
        let header = header::seal(self.role, kind, stream, self.sequence_out, body, bulk);
        self.sequence_out += 1;
        self.output.extend_from_slice(&header);
        self.output.extend_from_slice(body);
        self.output.extend_from_slice(bulk);
    }

    fn control<T: Serialize>(&mut self, kind: Kind, stream: u32, value: &T) {
        let body = postcard::to_allocvec(value);
        // Numbers and short strings of our own always encode.
        self.frame(kind, stream, &body.unwrap_or_default(), &[]);
    }

    fn process(&mut self) -> Result<(), RpcError> {
        while let Some(frame) = self.next_frame()? {
            self.frame_arrived(frame)?;
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, RpcError> {
        let bytes = self.input.rest();
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let header = header::open(self.role.other(), bytes)?;
        let expected = self.input.frames;
        if self.checks_sequence() {
            expect("sequence", 16, expected, header.sequence)?;
        }
        let Some(frame) = self.input.take(&header) else {
            return Ok(None);
        };
        if self.checks_payload() {
            let sums = [
                ("body checksum", 28, header.body_crc, &frame.body),
                ("bulk checksum", 32, header.bulk_crc, &frame.bulk),
            ];
            for (what, offset, sum, bytes) in sums {
                expect(what, offset, sum.into(), crc32c(bytes).into())?;
            }
        }
        Ok(Some(frame))
    }

    fn frame_arrived(&mut self, frame: Frame) -> Result<(), RpcError> {
        let Header { kind, stream, .. } = frame.header;
        if self.version.is_none() != (kind == Kind::Hello || kind == Kind::Refuse)
            && kind != Kind::Refuse
        {
            return Err(RpcError::Violation(
                "a hello is the first frame and no other",
            ));
        }
        let plain = matches!(kind, Kind::Open | Kind::Message);
        if !plain && !frame.bulk.is_empty() {
            return Err(RpcError::Violation("bulk bytes where there are none"));
        }
        let whole = matches!(kind, Kind::Hello | Kind::Refuse);
        if whole != (stream == 0) {
            return Err(RpcError::Violation("a stream where there is none"));
        }
        let id = StreamId(stream);
        match kind {
            Kind::Hello => self.hello(&frame.body),
            Kind::Refuse => {
                let reason: String = decode(&frame.body)?;
                let shown = reason.chars().filter(|c| !c.is_control());
                Err(RpcError::Refused(shown.take(REASON_MAX).collect()))
            }
            Kind::Open => self.opened_by_peer(id, frame),
            Kind::Message => {
                let checks = self.checks_window();
                let Some(state) = self.known(id)? else {
                    return Ok(());
                };
                if state.finished_in {
                    return Err(RpcError::Violation("a message behind the last one"));
                }
                state.receive(frame.into(), checks)
            }
            Kind::Finish => {
                let Some(state) = self.known(id)? else {
                    return Ok(());
                };
                if std::mem::replace(&mut state.finished_in, true) {
                    return Err(RpcError::Violation("a second finish"));
                }
                Ok(())
            }
            Kind::Reset => {
                let code: u32 = decode(&frame.body)?;
                if let Some(state) = self.known(id)? {
                    state.reset.get_or_insert(code);
                }
                Ok(())
            }
            Kind::Credit => {
                let more: u32 = decode(&frame.body)?;
                let most = self.theirs.as_ref().map_or(0, |hello| hello.window_bytes);
                let Some(state) = self.known(id)? else {
                    return Ok(());
                };
                state.credit_out += u64::from(more);
                if state.credit_out > u64::from(most) {
                    return Err(RpcError::Violation("more credit than its window"));
                }
                Ok(())
            }
        }
    }

    fn hello(&mut self, body: &[u8]) -> Result<(), RpcError> {
        let theirs = Hello::decode(body)?;
        self.version = Some(self.ours.agree(&theirs)?);
        self.theirs = Some(theirs);
        Ok(())
    }

    fn opened_by_peer(&mut self, id: StreamId, frame: Frame) -> Result<(), RpcError> {
        let of_peer = self.next % 2 != id.0 % 2;
        if !of_peer || id.0 <= self.highest_of_peer {
            return Err(RpcError::Violation("the number of a new stream"));
        }
        self.highest_of_peer = id.0;
        let held = |(id, state): (&StreamId, &State)| id.0 % 2 != self.next % 2 && !state.is_over();
        let open = self.streams.iter().filter(|entry| held(*entry)).count();
        if open >= usize::from(self.ours.streams_max) {
            return Err(RpcError::Violation("more streams than are allowed"));
        }
        let mut state = State {
            credit_out: self.theirs.as_ref().map_or(0, |h| h.window_bytes).into(),
            credit_in: self.ours.window_bytes.into(),
            ..State::default()
        };
        state.receive(frame.into(), self.checks_window())?;
        self.streams.insert(id, state);
        self.opened.push_back(id);
        Ok(())
    }

    /// The state of a stream that there is; `None` for one that there was.
    fn known(&mut self, id: StreamId) -> Result<Option<&mut State>, RpcError> {
        let of_peer = self.next % 2 != id.0 % 2;
        let was = if of_peer {
            id.0 <= self.highest_of_peer
        } else {
            id.0 < self.next
        };
        if !was {
            return Err(RpcError::Violation("a stream that nobody opened"));
        }
        let state = self.streams.get_mut(&id);
        Ok(state.filter(|state| state.reset.is_none()))
    }

    #[cfg(not(test))]
    fn checks_sequence(&self) -> bool {
        true
    }

    #[cfg(not(test))]
    fn checks_payload(&self) -> bool {
        true
    }

    #[cfg(not(test))]
    fn checks_window(&self) -> bool {
        true
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.reset.is_some() || (self.finished_in && self.finished_out)
    }

    fn receive(&mut self, message: Message, checks_window: bool) -> Result<(), RpcError> {
        let left = self.credit_in.checked_sub(message.cost());
        if checks_window && left.is_none() {
            return Err(RpcError::Violation("more than its credit"));
        }
        self.credit_in = left.unwrap_or(0);
        self.inbox.push_back(message);
        Ok(())
    }
}

fn check_length(body: &[u8], bulk: &[u8]) -> Result<(), RpcError> {
    if body.len() <= BODY_MAX && bulk.len() <= BULK_MAX {
        return Ok(());
    }
    Err(RpcError::TooLong {
        body_bytes: body.len(),
        bulk_bytes: bulk.len(),
    })
}

/// A body of one of our types.
///
/// # Errors
/// Only for types that postcard cannot encode.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, RpcError> {
    postcard::to_allocvec(value).map_err(|_| RpcError::Undecodable)
}

/// What a body says, all of it.
///
/// # Errors
/// The bytes are not of this type, or more.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, RpcError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(RpcError::Undecodable),
    }
}
