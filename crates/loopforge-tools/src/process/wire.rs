//! What LoopForge and its helper say to each other over the helper's standard input, which is a Unix socket.
//!
//! One order goes in: a length, JSON, then the document for the program. Reports come out, one JSON line each. When our
//! end closes, for whatever reason, the helper ends what it started: that holds too when LoopForge is killed.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the helper is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    /// `None` runs the program as it is.
    pub(super) confinement: Option<Confinement>,
    /// Bytes of the document that follows; the program's standard input.
    pub(super) document_size: u64,
}

/// What the program may reach; nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Confinement {
    /// Read and execute.
    pub(super) read: Vec<PathBuf>,
    /// Read, execute and write.
    pub(super) write: Vec<PathBuf>,
    /// Whether it may use the network.
    pub(super) network: bool,
    /// Caps that hold per process.
    pub(super) limits: Limits,
}

/// Caps on what the program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limits {
    /// Bytes of address space of a process.
    pub(super) memory_bytes: u64,
    /// Seconds of processor time of a process.
    pub(super) cpu_s: Option<u64>,
    /// Bytes of a file that it writes.
    pub(super) file_bytes: u64,
    /// Files that a process has open.
    pub(super) open_files: u64,
    /// Processes that live at once.
    pub(super) processes: usize,
}

/// What the helper tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The program runs.
    Started {
        /// Its process id, which is its process group's too.
        pid: i32,
    },
    /// The sandbox could not be built. Nothing was started.
    NotConfined {
        /// Why.
        message: String,
    },
    /// The program could not be executed. Nothing was started.
    NotExecuted {
        /// Why.
        message: String,
        /// `errno`, where the system gave one.
        errno: Option<i32>,
    },
    /// The program and all that it had started are gone.
    Ended {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Processes that it had left behind and that were ended.
        left_behind: usize,
        /// Processes that could not be ended.
        immortal: usize,
        /// The cap on processes was reached, and all were ended for it.
        too_many: bool,
    },
}

impl Order {
    /// The order as it goes over the socket, without the document.
    pub(super) fn to_frame(&self) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend_from_slice(&text);
        Ok(frame)
    }

    /// Sends the order and the document.
    pub(super) fn send(&self, document: &[u8], to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_frame()?)?;
        to.write_all(document)
    }

    /// Receives an order and its document.
    pub(super) fn receive(from: &mut impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut text = Vec::new();
        from.take(u32::from_le_bytes(length).into()).read_to_end(&mut text)?;
        let order: Self = serde_json::from_slice(&text)?;
        let mut document = Vec::new();
        from.take(order.document_size).read_to_end(&mut document)?;
        if document.len() as u64 != order.document_size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((order, document))
    }
}

impl Report {
    /// Sends the report as a line.
    pub(super) fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)
    }
}
