//! The one record log.
//!
//! Interface (kept as a signature sketch until the crate is built):
//! `Log::create(dir, name, LogId, Options) -> Result<Log>`,
//! `Log::open(dir, name, LogId, Options) -> Result<(Log, Recovered)>`,
//! `log.append(kind: u16, payload: &[u8]) -> Result<Sequence>` (buffers),
//! `log.commit(upto: Sequence) -> Result<()>` (durable, grouped),
//! `log.truncate_before(Sequence) -> Result<()>`.
