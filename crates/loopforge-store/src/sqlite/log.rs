//! What SQLite would drop from a write-ahead log without a word.
//!
//! When it reads a log after a crash, it stops at the first frame whose checksum is wrong. For an end that was torn by a
//! loss of power that is right. But it also drops what lies behind a flipped bit in the middle, though it was committed
//! and acknowledged; a run that went on from there would repeat effects.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::open::PAGE_SIZE;
use crate::{Finding, StoreError};

const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// The magic number, but for its last bit: that says in which order the checksums take bytes.
const MAGIC: u32 = 0x377f_0682;

/// Commits from the damage on that can't be the torn end of one transaction: one was over before the next began.
const IN_THE_MIDDLE: u64 = 2;

/// How long a frame that is just being written is given.
const PAUSE: Duration = Duration::from_millis(50);

/// What SQLite drops from a log: everything after its last whole transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    log: PathBuf,
    salts: [u8; 8],
    /// The first frame that can't be used, from 1; 0 when it is the log's header.
    frame: u64,
    /// Where the last whole transaction ends.
    end: u64,
    bytes: u64,
    /// Commits among what is dropped.
    transactions: u64,
}

impl Dropped {
    /// Looks at the log of the database at `path`. None: everything in it will be used, or there is none.
    ///
    /// Another process may be writing to it. So what is found counts only if it is still there after a pause.
    pub(crate) fn find(path: &Path) -> io::Result<Option<Self>> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = PathBuf::from(log);
        let Some(first) = scan(&log)? else { return Ok(None) };
        thread::sleep(PAUSE);
        let second = scan(&log)?;
        Ok(second.filter(|second| (first.salts, first.frame, first.end) == (second.salts, second.frame, second.end)))
    }

    /// Whether more is lost than the transaction that was being written at a crash.
    fn in_the_middle(&self) -> bool {
        self.transactions >= IN_THE_MIDDLE
    }

    fn problem(&self) -> String {
        let log = self.log.display();
        let place = match self.frame {
            0 => "its header".to_owned(),
            frame => format!("frame {frame}"),
        };
        let transactions = match self.transactions {
            1 => "1 transaction".to_owned(),
            several => format!("{several} transactions"),
        };
        format!("{log} is damaged at {place}: {transactions} ({} bytes) from there on can't be read", self.bytes)
    }

    /// What to do. Not to delete the log: what lies before the damage stands nowhere else.
    fn remedy(&self) -> String {
        let log = self.log.display();
        if !self.in_the_middle() {
            return "this is how a loss of power in the middle of a write looks; the next program that opens the store \
                    to write drops those bytes and goes on from the last whole transaction"
                .to_owned();
        }
        format!(
            "restore {log} from a copy; or, to go on without these transactions (effects made in them may be made \
             again): move it away and put back a copy of its first {} bytes, `head -c {} MOVED > {log}`",
            self.end, self.end
        )
    }
}

/// Looks at the log before SQLite recovers it for writing. Says aloud what is going to be dropped, and returns whether
/// anything is.
pub(crate) fn require_whole(path: &Path) -> Result<bool, StoreError> {
    let dropped = match Dropped::find(path) {
        Ok(Some(dropped)) => dropped,
        Ok(None) => return Ok(false),
        // SQLite will meet the same, and say so in its own way.
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the write-ahead log can't be looked at");
            return Ok(false);
        }
    };
    if dropped.in_the_middle() {
        return Err(StoreError::Corrupt(format!(
            "{}; to go on from what lies before could repeat effects, so nothing was changed; {}",
            dropped.problem(),
            dropped.remedy()
        )));
    }
    tracing::warn!(
        log = %dropped.log.display(),
        bytes = dropped.bytes,
        transactions = dropped.transactions,
        "the end of the write-ahead log is dropped: it was not written to its end when the machine or a process \
         stopped; work goes on from the last whole transaction"
    );
    Ok(true)
}

/// What [`super::check`] has to say of the log. Nothing of an end without a commit: nobody was told that it is stored.
pub(crate) fn check(path: &Path) -> Option<Finding> {
    let dropped = Dropped::find(path).ok().flatten().filter(|dropped| dropped.transactions > 0)?;
    Some(Finding { run: None, problem: dropped.problem(), remedy: dropped.remedy() })
}

/// Reads a log as SQLite does when it recovers it, and beyond.
fn scan(log: &Path) -> io::Result<Option<Dropped>> {
    let mut file = match File::open(log) {
        Ok(file) => BufReader::with_capacity(64 * 1024, file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER as usize];
    if read(&mut file, &mut header)? < header.len() {
        return Ok(None);
    }
    let magic = word(&header, 0);
    let big_endian = magic & 1 == 1;
    let mut sum = checksum(&header[..24], (0, 0), big_endian);
    let page_size = word(&header, 8);
    // A database of another page size is none of ours, and is refused as such.
    let header_is_whole = magic & !1 == MAGIC && sum == (word(&header, 24), word(&header, 28));
    if header_is_whole && page_size != PAGE_SIZE {
        return Ok(None);
    }

    // With a damaged header, the first frame tells which frames belong together.
    let mut salts = header_is_whole.then(|| array(&header, 16));
    let mut broken = (!header_is_whole).then_some(0);
    let (mut end, mut last, mut transactions) = (if header_is_whole { HEADER } else { 0 }, 0, 0);
    let mut frame = vec![0; (FRAME_HEADER + u64::from(PAGE_SIZE)) as usize];
    for number in 1.. {
        let length = read(&mut file, &mut frame)?;
        if (length as u64) < FRAME_HEADER {
            break;
        }
        let whole = length == frame.len();
        let start = HEADER + (number - 1) * frame.len() as u64;
        let ours = *salts.get_or_insert_with(|| array(&frame, 8)) == array(&frame, 8);
        let commit = word(&frame, 4) != 0;
        if broken.is_none() {
            let before = checksum(&frame[..8], sum, big_endian);
            sum = checksum(&frame[24..], before, big_endian);
            let good = whole && ours && word(&frame, 0) != 0 && sum == (word(&frame, 16), word(&frame, 20));
            if good && commit {
                end = start + length as u64;
            }
            if !good {
                broken = Some(number);
            }
        }
        // Zeros are no frame of anybody's.
        if ours && word(&frame, 0) != 0 {
            last = start + length as u64;
            if broken.is_some() && commit && whole {
                transactions += 1;
            }
        }
        if !whole {
            break;
        }
    }
    let Some(salts) = salts.filter(|_| last > end) else { return Ok(None) };
    // Whole frames of a transaction that was never committed are dropped from the first one on.
    let after_end = end.saturating_sub(HEADER) / frame.len() as u64 + 1;
    let frame = broken.unwrap_or(after_end);
    Ok(Some(Dropped { log: log.to_owned(), salts, frame, end, bytes: last - end, transactions }))
}

/// SQLite's checksum of `bytes`, which are a multiple of eight, carried on from `sum`.
fn checksum(bytes: &[u8], sum: (u32, u32), big_endian: bool) -> (u32, u32) {
    let number = |word: [u8; 4]| if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
    bytes.chunks_exact(8).fold(sum, |(first, second), pair| {
        let first = first.wrapping_add(number(array(pair, 0))).wrapping_add(second);
        (first, second.wrapping_add(number(array(pair, 4))).wrapping_add(first))
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Fills `buffer` as far as the file goes, and says how far.
fn read(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
