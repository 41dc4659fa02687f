//! Requests and replies.

use super::handshake::{ALLOCATION_ID, Chosen};
use super::wire::{self, REQUEST_BYTES, Request, chunk, command, error};
use super::{Connection, PAYLOAD_BYTES_MAX, WORKERS, confused};
use crate::{Change, Volume, VolumeError};
use env::errno::ErrorKind;
use parking_lot::Mutex;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of zeros that are written at once where a client wants them to have room.
const ZEROS_BYTES: u32 = 1 << 20;

/// Extents of one answer about content.
const EXTENTS_MAX: usize = 1024;

/// A request with what it writes.
type Work = (Request, Vec<u8>);

/// Reads requests, and has several of them worked on at once, until the client leaves.
pub(super) fn run(
    volume: &Volume,
    mut connection: Box<dyn Connection>,
    chosen: &Chosen,
) -> io::Result<()> {
    let session = Session {
        volume,
        chosen: *chosen,
        out: Mutex::new(connection.again()?),
    };
    let (give, take) = sync_channel(WORKERS);
    let take = Mutex::new(take);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| session.work(&take));
        }
        // Dropped at the end: the workers do what they have, and end too.
        let give = give;
        read_requests(connection.as_mut(), &give)
    })
}

fn read_requests(client: &mut dyn Connection, give: &SyncSender<Work>) -> io::Result<()> {
    loop {
        let mut bytes = [0; REQUEST_BYTES];
        match client.read_exact(&mut bytes) {
            // A client may leave without a word.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            answer => answer?,
        }
        let request =
            Request::decode(&bytes).ok_or_else(|| confused("a request without its magic"))?;
        if request.command == command::DISCONNECT {
            return Ok(());
        }
        let mut data = Vec::new();
        if request.command == command::WRITE {
            if request.length > PAYLOAD_BYTES_MAX {
                return Err(confused("a write that is too long"));
            }
            data.resize(request.length as usize, 0);
            client.read_exact(&mut data)?;
        }
        if give.send((request, data)).is_err() {
            return Ok(());
        }
    }
}

struct Session<'v> {
    volume: &'v Volume,
    chosen: Chosen,
    out: Mutex<Box<dyn Connection>>,
}

/// What a request gets.
enum Answer {
    Done,
    Data(Vec<u8>),
    Extents(Vec<(u32, u32)>),
}

/// An error number of the protocol, with words.
type Refusal = (u32, String);

impl Session<'_> {
    fn work(&self, take: &Mutex<Receiver<Work>>) {
        loop {
            let next = take.lock().recv();
            let Ok((request, data)) = next else {
                return;
            };
            let answer = self.execute(&request, &data);
            // Where nobody listens any more the reader notices too, and what was read is still done.
            let _ = self.reply(&request, answer);
        }
    }

    fn execute(&self, request: &Request, data: &[u8]) -> Result<Answer, Refusal> {
        let object = self.chosen.export.object;
        let (offset, length) = (request.offset, u64::from(request.length));
        let end = offset.checked_add(length);
        if request.command != command::FLUSH && end.is_none_or(|end| end > self.chosen.export.size)
        {
            // The protocol asks for ENOSPC past the end of a write, EINVAL of others.
            let past = match request.command {
                command::WRITE | command::WRITE_ZEROES => error::ENOSPC,
                _ => error::EINVAL,
            };
            return Err((past, "past the end of the device".to_owned()));
        }
        let one = |change: Change<'_>| self.volume.commit(&[change]).map_err(refusal);
        let answer = match request.command {
            command::READ if request.length > PAYLOAD_BYTES_MAX => {
                return Err((error::EINVAL, "a read that is too long".to_owned()));
            }
            command::READ => {
                let mut content = vec![0; request.length as usize];
                (self.volume.read(object, offset, &mut content)).map_err(refusal)?;
                Answer::Data(content)
            }
            command::WRITE => {
                one(Change::Write {
                    object,
                    offset,
                    bytes: data,
                })?;
                Answer::Done
            }
            command::FLUSH => {
                self.volume.sync().map_err(refusal)?;
                Answer::Done
            }
            command::TRIM => {
                one(Change::Discard {
                    object,
                    offset,
                    length,
                })?;
                Answer::Done
            }
            command::WRITE_ZEROES if request.flags & command::NO_HOLE != 0 => {
                self.write_zeros(offset, length).map_err(refusal)?;
                Answer::Done
            }
            command::WRITE_ZEROES => {
                one(Change::Zero {
                    object,
                    offset,
                    length,
                })?;
                Answer::Done
            }
            command::BLOCK_STATUS if self.chosen.allocation && length > 0 => {
                let most = match request.flags & command::REQ_ONE {
                    0 => EXTENTS_MAX,
                    _ => 1,
                };
                Answer::Extents(self.extents(offset, length, most))
            }
            _ => return Err((error::EINVAL, "not a command of this device".to_owned())),
        };
        let changes = [command::WRITE, command::TRIM, command::WRITE_ZEROES];
        if request.flags & command::FUA != 0 && changes.contains(&request.command) {
            self.volume.sync().map_err(refusal)?;
        }
        Ok(answer)
    }

    fn write_zeros(&self, offset: u64, length: u64) -> crate::Result<()> {
        let zeros = vec![0; ZEROS_BYTES as usize];
        let mut done = 0;
        while done < length {
            let now = (length - done).min(ZEROS_BYTES.into());
            let bytes = zeros.get(..now as usize).unwrap_or_default();
            self.volume
                .atomic_write(&[(self.chosen.export.object, offset + done, bytes)])?;
            done += now;
        }
        Ok(())
    }

    /// Lengths with 3 for a hole that reads as zeros, 0 for content.
    fn extents(&self, offset: u64, length: u64, most: usize) -> Vec<(u32, u32)> {
        let mut extents: Vec<(u32, u32)> = Vec::new();
        let mut done = 0;
        while done < length {
            let (hole, run) = (self.volume).extent(self.chosen.export.object, offset + done);
            let run = run.min(length - done) as u32;
            let state = if hole { 3 } else { 0 };
            let full = extents.len() == most;
            match extents.last_mut() {
                Some((last, same)) if *same == state => *last += run,
                _ if full => break,
                _ => extents.push((run, state)),
            }
            done += u64::from(run);
        }
        extents
    }

    fn reply(&self, request: &Request, answer: Result<Answer, Refusal>) -> io::Result<()> {
        let mut out = self.out.lock();
        let structured = self.chosen.structured;
        match answer {
            Ok(Answer::Data(data)) if structured => {
                let offset = request.offset.to_be_bytes();
                chunk_head(
                    out.as_mut(),
                    request,
                    chunk::OFFSET_DATA,
                    8 + data.len(),
                    &offset,
                )?;
                out.write_all(&data)
            }
            Ok(Answer::Data(data)) => {
                simple(out.as_mut(), request, 0)?;
                out.write_all(&data)
            }
            Ok(Answer::Extents(extents)) => {
                let mut body = Vec::from(ALLOCATION_ID.to_be_bytes());
                for (length, state) in extents {
                    body.extend_from_slice(&length.to_be_bytes());
                    body.extend_from_slice(&state.to_be_bytes());
                }
                chunk_head(
                    out.as_mut(),
                    request,
                    chunk::BLOCK_STATUS,
                    body.len(),
                    &body,
                )
            }
            Ok(Answer::Done) if structured => {
                chunk_head(out.as_mut(), request, chunk::NONE, 0, &[])
            }
            Ok(Answer::Done) => simple(out.as_mut(), request, 0),
            Err((number, words)) if structured => {
                let mut body = Vec::from(number.to_be_bytes());
                let words = words.as_bytes();
                // The protocol allows 4096 bytes of words.
                let words = words.get(..words.len().min(1024)).unwrap_or_default();
                body.extend_from_slice(&(words.len() as u16).to_be_bytes());
                body.extend_from_slice(words);
                chunk_head(out.as_mut(), request, chunk::ERROR, body.len(), &body)
            }
            Err((number, _)) => simple(out.as_mut(), request, number),
        }
    }
}

fn simple(out: &mut dyn Connection, request: &Request, error: u32) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16);
    bytes.extend_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&error.to_be_bytes());
    bytes.extend_from_slice(&request.cookie.to_be_bytes());
    out.write_all(&bytes)
}

/// The head of the only chunk of a reply, and the start of its body.
fn chunk_head(
    out: &mut dyn Connection,
    request: &Request,
    kind: u16,
    length: usize,
    start: &[u8],
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(20 + start.len());
    bytes.extend_from_slice(&wire::CHUNK_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&chunk::DONE.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&request.cookie.to_be_bytes());
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    bytes.extend_from_slice(start);
    out.write_all(&bytes)
}

fn refusal(failed: VolumeError) -> Refusal {
    let number = match failed.kind() {
        ErrorKind::NoSpace => error::ENOSPC,
        ErrorKind::Misuse if failed == VolumeError::ReadOnly => error::EPERM,
        ErrorKind::Misuse => error::EINVAL,
        ErrorKind::Transient | ErrorKind::Corrupt | ErrorKind::Fatal => error::EIO,
    };
    (number, failed.to_string())
}
