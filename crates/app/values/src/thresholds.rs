//! Up to where a collection is one packed piece of memory.

/// The limits of compact encodings, with the names and the defaults of Redis 7.0's configuration.
/// A collection above a limit becomes an indexed one; it never goes back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// `list-max-listpack-size`: a list's node holds so many elements, or, below zero, -1 to -5
    /// mean 4, 8, 16, 32 or 64 KiB.
    pub list_max_listpack_size: i32,
    /// `hash-max-listpack-entries`: fields of a packed hash.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`: bytes of a field or a value of a packed hash.
    pub hash_max_listpack_value: usize,
    /// `set-max-intset-entries`: members of a set of integers.
    pub set_max_intset_entries: usize,
    /// `zset-max-listpack-entries`: members of a packed sorted set.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`: bytes of a member of a packed sorted set.
    pub zset_max_listpack_value: usize,
    /// `stream-node-max-bytes`: bytes of a node of a stream; 0 is no limit.
    pub stream_node_max_bytes: usize,
    /// `stream-node-max-entries`: entries of a node of a stream; 0 is no limit.
    pub stream_node_max_entries: usize,
    /// `hll-sparse-max-bytes`: bytes of a sparse HyperLogLog.
    pub hll_sparse_max_bytes: usize,
}

impl Thresholds {
    /// The defaults of Redis 7.0.
    pub const REDIS: Self = Self {
        list_max_listpack_size: -2,
        hash_max_listpack_entries: 128,
        hash_max_listpack_value: 64,
        set_max_intset_entries: 512,
        zset_max_listpack_entries: 128,
        zset_max_listpack_value: 64,
        stream_node_max_bytes: 4096,
        stream_node_max_entries: 100,
        hll_sparse_max_bytes: 3000,
    };
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::REDIS
    }
}
