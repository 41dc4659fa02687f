//! What a log says of bytes that are not what it wrote.
