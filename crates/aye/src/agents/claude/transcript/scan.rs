//! The calls a transcript leaves open, found by searching its bytes. Only lines that can matter are
//! parsed, and those properly: a word inside a string is not a call.

use super::line::{self, TranscriptLine};
use super::pending::{OpenCall, Pending};
use super::tail::{LONGEST, Lines, TailEvent};
use crate::agents::claude::translate::{PLAN, QUESTIONS};
use memchr::memmem::{Finder, FinderRev};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: usize = 512 * 1024;
/// How far from the end the person's last turn is looked for, in steps. What came before it is settled.
const LOOK_BACK: [u64; 3] = [256 * 1024, 2 * 1024 * 1024, 16 * 1024 * 1024];

/// Which calls are looked for.
#[derive(Clone, Copy)]
pub enum CallFilter<'a> {
    Tools(&'a [&'a str]),
    All,
}

/// The open calls of one tool, in the order in which they were made.
pub fn open_calls(path: &Path, tool: &str) -> io::Result<Vec<OpenCall>> {
    open_in(path, CallFilter::Tools(&[tool]), u64::MAX)
}

/// The same of the tools whose calls always wait for a person.
pub fn calls_for_a_person(path: &Path) -> io::Result<Vec<OpenCall>> {
    open_in(path, CallFilter::Tools(&[QUESTIONS, PLAN]), u64::MAX)
}

/// The same of every tool.
pub fn all_open_calls(path: &Path) -> io::Result<Vec<OpenCall>> {
    open_in(path, CallFilter::All, u64::MAX)
}

/// Those of every tool that were made near the end, as one is that asks for permission: to look at every call of a long
/// transcript takes far longer than to search for a few tools.
pub fn recent_open_calls(path: &Path) -> io::Result<Vec<OpenCall>> {
    open_in(path, CallFilter::All, LOOK_BACK[2])
}

/// Looks at no more than this many bytes at the end.
fn open_in(path: &Path, wanted: CallFilter, most: u64) -> io::Result<Vec<OpenCall>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    // The first turn may stand behind the call that it led to.
    let turn = last_turn(&file, length)?.filter(|turn| *turn > LOOK_BACK[0]);
    let start = turn.unwrap_or_default().max(length.saturating_sub(most));
    file.seek(SeekFrom::Start(start))?;
    let mut scan = Scan::new(wanted);
    scan.read(file)?;
    Ok(scan.pending.into_open())
}

/// Offset of the last turn of the person, if it lies within the scanned tail.
pub fn last_turn(file: &File, length: u64) -> io::Result<Option<u64>> {
    let user = FinderRev::new(USER);
    let mut seen_from = length;
    for step in LOOK_BACK {
        let from = length.saturating_sub(step);
        let mut window = vec![0; usize::try_from(seen_from - from).unwrap_or_default()];
        match file.read_exact_at(&mut window, from) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        // The first line may have begun before the window, unless the file does.
        let first = match from {
            0 => 0,
            _ => memchr::memchr(b'\n', &window).map_or(window.len(), |end| end + 1),
        };
        let mut end = window.len();
        while let Some(at) = user.rfind(&window[first..end]) {
            let (line_start, line_end) = line_around(&window, first + at);
            if !has_result(&window[line_start..line_end])
                && line::decode(&window[line_start..line_end]).is_some_and(|line| line.is_new_turn())
            {
                return Ok(Some(from + line_start as u64));
            }
            end = line_start.max(first);
        }
        if from == 0 {
            break;
        }
        seen_from = from + first as u64;
    }
    Ok(None)
}

/// The permission mode that the session named last, if it did so lately.
pub fn last_mode(path: &Path) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LOOK_BACK[1]);
    let mut window = vec![0; usize::try_from(length - from).unwrap_or_default()];
    match file.read_exact_at(&mut window, from) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (named, mut end) = (FinderRev::new(MODE), window.len());
    while let Some(at) = named.rfind(&window[..end]) {
        let (line_start, line_end) = line_around(&window, at);
        let line = line::decode(&window[line_start..line_end]).filter(|line| !line.sidechain);
        if let Some(mode) = line.and_then(|line| line.mode) {
            return Ok(Some(mode));
        }
        end = line_start;
    }
    Ok(None)
}

/// In quotes and unescaped, these cannot occur inside a string.
const MODE: &[u8] = b"\"permissionMode\"";
const USER: &[u8] = b"\"user\"";

struct Scan<'a> {
    wanted: CallFilter<'a>,
    named: Vec<Finder<'a>>,
    user: Finder<'static>,
    pending: Pending,
}

impl<'a> Scan<'a> {
    fn new(wanted: CallFilter<'a>) -> Self {
        let named = match wanted {
            CallFilter::Tools(tools) => tools,
            CallFilter::All => &["\"tool_use\""],
        };
        Self {
            wanted,
            named: named.iter().map(Finder::new).collect(),
            user: Finder::new(USER),
            pending: Pending::default(),
        }
    }

    fn read(&mut self, mut file: impl Read) -> io::Result<()> {
        let mut buffer = vec![0; BLOCK];
        let mut filled = 0;
        loop {
            let read = match file.read(&mut buffer[filled..]) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let last = memchr::memrchr(b'\n', &buffer[filled..filled + read]).map(|at| filled + at + 1);
            filled += read;
            if read == 0 {
                // The last line may lack its end, and is a line if it is whole.
                self.search(&buffer[..filled]);
                return Ok(());
            }
            if let Some(last) = last {
                self.search(&buffer[..last]);
                buffer.copy_within(last..filled, 0);
                filled -= last;
            } else if filled == buffer.len() && filled < LONGEST {
                buffer.resize(buffer.len() * 2, 0);
            } else if filled == buffer.len() {
                filled = self.read_long_line(&mut file, &mut buffer)?;
                buffer.truncate(BLOCK.max(filled));
            }
        }
    }

    /// Reads on to the end of a line that is too long to be held, and leaves what follows in the buffer.
    fn read_long_line(&mut self, file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        let mut lines = Lines::default();
        let mut filled = buffer.len();
        loop {
            let end = memchr::memchr(b'\n', &buffer[..filled]).map_or(filled, |at| at + 1);
            let whole = buffer[..end].ends_with(b"\n");
            lines.push(&buffer[..end], &mut |found| match found {
                TailEvent::Line(line) => self.see(line::decode(line), false),
                TailEvent::Cut(line) => self.see(line::decode(line), true),
                TailEvent::Restarted => {}
            });
            if whole {
                buffer.copy_within(end..filled, 0);
                return Ok(filled - end);
            }
            filled = file.read(buffer)?;
            if filled == 0 {
                return Ok(0);
            }
        }
    }

    /// Whole lines. While nothing is open, only a call can matter; after that, what ends it can, too.
    fn search(&mut self, block: &[u8]) {
        let mut from = 0;
        let mut named = vec![NextMatch::default(); self.named.len()];
        let mut user = NextMatch::default();
        loop {
            let each = named.iter_mut().zip(&self.named);
            let mut next =
                each.map(|(next, word)| next.after(from, word, block)).min().unwrap_or(block.len());
            if !self.pending.open().is_empty() {
                next = next.min(user.after(from, &self.user, block));
            }
            if next >= block.len() {
                return;
            }
            let (start, end) = line_around(block, next);
            let line = &block[start..end];
            if self.may_matter(line) {
                self.see(line::decode(line), false);
            }
            from = end;
        }
    }

    /// A result that is not ours is told by its id alone; most lines with results are such.
    fn may_matter(&self, line: &[u8]) -> bool {
        let open = self.pending.open();
        let is_ours = |open: &OpenCall| memchr::memmem::find(line, open.tool_use_id.as_bytes()).is_some();
        self.named.iter().any(|word| word.find(line).is_some())
            || !has_result(line)
            || open.iter().any(is_ours)
    }

    fn see(&mut self, line: Option<TranscriptLine>, cut: bool) {
        if let Some(line) = line {
            self.pending.see(line, cut, |name| match self.wanted {
                CallFilter::Tools(tools) => tools.contains(&name),
                CallFilter::All => true,
            });
        }
    }
}

/// The next place of a word, looked for only once.
#[derive(Clone, Default)]
struct NextMatch {
    found: Option<usize>,
}

impl NextMatch {
    fn after(&mut self, from: usize, word: &Finder, block: &[u8]) -> usize {
        match self.found {
            Some(at) if at >= from => at,
            _ => {
                let at = word.find(&block[from..]).map_or(block.len(), |at| from + at);
                *self.found.insert(at)
            }
        }
    }
}

fn line_around(block: &[u8], at: usize) -> (usize, usize) {
    let start = memchr::memrchr(b'\n', &block[..at]).map_or(0, |end| end + 1);
    let end = memchr::memchr(b'\n', &block[at..]).map_or(block.len(), |end| at + end);
    (start, end)
}

/// Whether some object in this line is of type `tool_result`: such a line is no turn of a person.
fn has_result(line: &[u8]) -> bool {
    memchr::memmem::find_iter(line, b"\"tool_result\"").any(|at| {
        let before = line[..at].trim_ascii_end();
        before.strip_suffix(b":").is_some_and(|key| key.trim_ascii_end().ends_with(b"\"type\""))
    })
}

#[cfg(test)]
mod tests;
