//! The negotiation: which device, and what both sides can do.

use super::wire::{self, DEVICE_FLAGS, answer, option};
use super::{Connection, Export, OPTIONS_MAX, PAYLOAD_BYTES_MAX, confused, export};
use crate::{BLOCK_BYTES, Volume};
use std::io;

/// Longest option; names have at most 4096 bytes.
const OPTION_BYTES_MAX: usize = 16 << 10;

/// The context that says which parts of a device have content.
const ALLOCATION: &[u8] = b"base:allocation";

/// The number that this server gives to it.
pub(super) const ALLOCATION_ID: u32 = 1;

/// What was negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chosen {
    pub(super) export: Export,
    pub(super) structured: bool,
    pub(super) allocation: bool,
}

/// Negotiates; `None` where the client left.
pub(super) fn run(volume: &Volume, client: &mut dyn Connection) -> io::Result<Option<Chosen>> {
    let mut greeting = Vec::new();
    greeting.extend_from_slice(&wire::MAGIC.to_be_bytes());
    greeting.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
    client.write_all(&greeting)?;
    let flags = u32::from_be_bytes(take(client)?);
    let known = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
    if flags & !known != 0 {
        return Err(confused("unknown flags of the client"));
    }
    let zeroes = flags & u32::from(wire::NO_ZEROES) == 0;
    let mut structured = false;
    let mut allocation = None;
    for _ in 0..OPTIONS_MAX {
        if u64::from_be_bytes(take(client)?) != wire::OPTION_MAGIC {
            return Err(confused("an option without its magic"));
        }
        let number = u32::from_be_bytes(take(client)?);
        let length = u32::from_be_bytes(take(client)?) as usize;
        if length > OPTION_BYTES_MAX {
            reply(client, number, answer::ERR_TOO_BIG, &[])?;
            return Err(confused("an option that is too long"));
        }
        let mut data = vec![0; length];
        client.read_exact(&mut data)?;
        let chosen = |export: Export| Chosen {
            export,
            structured,
            allocation: structured && allocation == Some(export.object),
        };
        match number {
            option::EXPORT_NAME => {
                let found = export(volume, &data).ok_or_else(|| confused("no such device"))?;
                let mut bytes = Vec::from(found.size.to_be_bytes());
                bytes.extend_from_slice(&DEVICE_FLAGS.to_be_bytes());
                bytes.resize(bytes.len() + if zeroes { 124 } else { 0 }, 0);
                client.write_all(&bytes)?;
                return Ok(Some(chosen(found)));
            }
            option::ABORT => {
                // The client may be gone already.
                let _ = reply(client, number, answer::ACK, &[]);
                return Ok(None);
            }
            option::LIST => list(volume, client, &data)?,
            option::INFO | option::GO => {
                let Some(name) = wire::go_name(&data) else {
                    reply(client, number, answer::ERR_INVALID, b"malformed")?;
                    continue;
                };
                let Some(found) = export(volume, name) else {
                    reply(client, number, answer::ERR_UNKNOWN, b"no such device")?;
                    continue;
                };
                describe(client, number, &found)?;
                if number == option::GO {
                    return Ok(Some(chosen(found)));
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                structured = true;
                reply(client, number, answer::ACK, &[])?;
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                let found = contexts(volume, client, number, &data, structured)?;
                if number == option::SET_META_CONTEXT {
                    allocation = found;
                }
            }
            _ => reply(client, number, answer::ERR_UNSUPPORTED, &[])?,
        }
    }
    Err(confused("too many options"))
}

fn take<const N: usize>(client: &mut dyn Connection) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn reply(client: &mut dyn Connection, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    client.write_all(&bytes)
}

fn list(volume: &Volume, client: &mut dyn Connection, data: &[u8]) -> io::Result<()> {
    if !data.is_empty() {
        return reply(client, option::LIST, answer::ERR_INVALID, b"malformed");
    }
    for (object, _) in volume.objects() {
        let name = object.to_string();
        let mut bytes = Vec::from((name.len() as u32).to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        reply(client, option::LIST, answer::SERVER, &bytes)?;
    }
    reply(client, option::LIST, answer::ACK, &[])
}

/// Size and abilities, and the sizes of requests: any works, whole blocks are best.
fn describe(client: &mut dyn Connection, option: u32, export: &Export) -> io::Result<()> {
    let mut bytes = Vec::from(0u16.to_be_bytes());
    bytes.extend_from_slice(&export.size.to_be_bytes());
    bytes.extend_from_slice(&DEVICE_FLAGS.to_be_bytes());
    reply(client, option, answer::INFO, &bytes)?;
    let mut bytes = Vec::from(3u16.to_be_bytes());
    for size in [1, BLOCK_BYTES as u32, PAYLOAD_BYTES_MAX] {
        bytes.extend_from_slice(&size.to_be_bytes());
    }
    reply(client, option, answer::INFO, &bytes)?;
    reply(client, option, answer::ACK, &[])
}

/// Answers what contexts there are; the object for which the one that we have was asked.
fn contexts(
    volume: &Volume,
    client: &mut dyn Connection,
    number: u32,
    data: &[u8],
    structured: bool,
) -> io::Result<Option<crate::ObjectId>> {
    let queries = wire::context_queries(data).filter(|_| structured);
    let Some((name, queries)) = queries else {
        reply(client, number, answer::ERR_INVALID, b"malformed")?;
        return Ok(None);
    };
    let Some(found) = export(volume, name) else {
        reply(client, number, answer::ERR_UNKNOWN, b"no such device")?;
        return Ok(None);
    };
    let listing = number == option::LIST_META_CONTEXT;
    let wanted = |query: &&[u8]| *query == ALLOCATION || listing && *query == b"base:";
    let offered = queries.iter().any(wanted) || listing && queries.is_empty();
    if offered {
        let mut bytes = Vec::from(ALLOCATION_ID.to_be_bytes());
        bytes.extend_from_slice(ALLOCATION);
        reply(client, number, answer::META_CONTEXT, &bytes)?;
    }
    reply(client, number, answer::ACK, &[])?;
    Ok(offered.then_some(found.object))
}
