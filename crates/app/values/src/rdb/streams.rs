//! Streams.

use std::io::{self, Read, Write};

use super::{RdbError, input::Input, output::Output};
use crate::{
    listpack::Listpack,
    stream::{Counts, Group, Stream, StreamId},
};

/// The number of read entries that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Reads a stream; the newer of the two forms says more of what was added and deleted.
pub(super) fn read<R: Read>(newer: bool, input: &mut Input<R>) -> Result<Stream, RdbError> {
    let mut stream = Stream::new();
    for _ in 0..input.length()? {
        let master = input.string()?;
        let master: Result<[u8; 16], _> = master.try_into();
        let master = master.map_err(|_| input.corrupt("the id of a node", "other bytes"))?;
        let pack = Listpack::from_bytes(input.string()?);
        let taken = pack.and_then(|pack| stream.push_node(StreamId::from_bytes(master), pack));
        taken.ok_or_else(|| input.corrupt("a node of a stream", "other bytes"))?;
    }
    let length = input.length()?;
    let last_id = id(input)?;
    let mut counts = Counts {
        length,
        last_id,
        max_deleted_id: StreamId::MIN,
        entries_added: length,
    };
    if newer {
        // The first id follows from the nodes.
        id(input)?;
        counts.max_deleted_id = id(input)?;
        counts.entries_added = input.length()?;
    }
    let taken = stream.set_counts(counts);
    taken.ok_or_else(|| input.corrupt("counts of a stream", "others than its entries have"))?;
    for _ in 0..input.length()? {
        let name = input.string()?;
        let last_id = id(input)?;
        let read = if newer {
            Some(input.length()?).filter(|&read| read != UNKNOWN)
        } else {
            None
        };
        let group = group(Group::new(last_id, read), input)?;
        let taken = stream.push_group(name, group);
        taken.ok_or_else(|| input.corrupt("a new group", "a name that is taken"))?;
    }
    Ok(stream)
}

fn id<R: Read>(input: &mut Input<R>) -> Result<StreamId, RdbError> {
    Ok(StreamId::new(input.length()?, input.length()?))
}

/// All deliveries come first, then each consumer with the ids of its own.
fn group<R: Read>(mut group: Group, input: &mut Input<R>) -> Result<Group, RdbError> {
    let mut pending = std::collections::BTreeMap::new();
    for _ in 0..input.length()? {
        let id = StreamId::from_bytes(input.array()?);
        let delivered_ms = u64::from_le_bytes(input.array()?);
        pending.insert(id, (delivered_ms, input.length()?));
    }
    for _ in 0..input.length()? {
        let name = input.string()?;
        let seen_ms = u64::from_le_bytes(input.array()?);
        let taken = group.push_consumer(&name, seen_ms);
        taken.ok_or_else(|| input.corrupt("a new consumer", "a name that is taken"))?;
        for _ in 0..input.length()? {
            let id = StreamId::from_bytes(input.array()?);
            let taken = pending.remove(&id).and_then(|(delivered_ms, deliveries)| {
                group.push_pending(id, &name, delivered_ms, deliveries)
            });
            taken.ok_or_else(|| input.corrupt("the id of a delivery", "another"))?;
        }
    }
    if !pending.is_empty() {
        return Err(input.corrupt("a consumer for each delivery", "one without"));
    }
    Ok(group)
}

pub(super) fn write<W: Write>(stream: &Stream, output: &mut Output<W>) -> io::Result<()> {
    let nodes = stream.nodes();
    output.length(nodes.len() as u64)?;
    for (master, pack) in nodes {
        output.raw_string(&master.to_bytes())?;
        output.raw_string(pack.bytes())?;
    }
    output.length(stream.len() as u64)?;
    for id in [stream.last_id(), stream.first_id(), stream.max_deleted_id()] {
        write_id(id, output)?;
    }
    output.length(stream.entries_added())?;
    let groups = stream.groups();
    output.length(groups.len() as u64)?;
    for (name, group) in groups {
        output.string(name)?;
        write_id(group.last_id(), output)?;
        output.length(group.entries_read().unwrap_or(UNKNOWN))?;
        output.length(group.pending_count() as u64)?;
        for pending in group.pending(StreamId::MIN, StreamId::MAX) {
            output.bytes(&pending.id.to_bytes())?;
            output.bytes(&pending.delivered_ms.to_le_bytes())?;
            output.length(pending.deliveries)?;
        }
        output.length(group.consumers().count() as u64)?;
        for consumer in group.consumers() {
            output.string(consumer.name())?;
            output.bytes(&consumer.seen_ms.to_le_bytes())?;
            let ids = consumer.pending();
            output.length(ids.len() as u64)?;
            for id in ids {
                output.bytes(&id.to_bytes())?;
            }
        }
    }
    Ok(())
}

fn write_id<W: Write>(id: StreamId, output: &mut Output<W>) -> io::Result<()> {
    output.length(id.ms)?;
    output.length(id.sequence)
}
