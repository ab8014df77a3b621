//! Generated control protocol.
