//! What is new in a file that grows. Costs what was added, not what is there; holds no file open.

use super::shorten::Shortener;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longer lines come with their long strings cut.
pub const LONGEST: usize = 8 * 1024 * 1024;
const BLOCK: usize = 256 * 1024;
/// How much of what was read last is compared, to notice a file that was rewritten.
const MARK: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum TailEvent<'a> {
    /// A whole line, without its end.
    Line(&'a [u8]),
    /// A line too long to be held, with its long strings cut.
    Cut(&'a [u8]),
    /// The file was replaced or rewritten: all of it follows, from its beginning.
    Restarted,
}

/// Puts lines together from whatever comes, in bounded memory.
#[derive(Debug, Default)]
pub struct Lines {
    begun: PartialLine,
}

#[derive(Debug)]
enum PartialLine {
    Held(Vec<u8>),
    Long(Shortener),
    /// Too long even without its long strings: skipped.
    TooLong,
}

impl Default for PartialLine {
    fn default() -> Self {
        PartialLine::Held(Vec::new())
    }
}

impl Lines {
    /// Hands out every line that these bytes complete.
    pub fn push(&mut self, mut bytes: &[u8], each: &mut impl FnMut(TailEvent)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.finish(&bytes[..end], each);
            bytes = &bytes[end + 1..];
        }
        self.hold(bytes);
    }

    fn finish(&mut self, last: &[u8], each: &mut impl FnMut(TailEvent)) {
        if matches!(&self.begun, PartialLine::Held(held) if held.is_empty()) && last.len() <= LONGEST {
            return each(TailEvent::Line(last));
        }
        self.hold(last);
        match std::mem::take(&mut self.begun) {
            PartialLine::Held(line) => each(TailEvent::Line(&line)),
            PartialLine::Long(shortener) => each(TailEvent::Cut(&shortener.take())),
            PartialLine::TooLong => {}
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        match &mut self.begun {
            PartialLine::Held(held) if held.len() + bytes.len() <= LONGEST => held.extend_from_slice(bytes),
            PartialLine::Held(held) => {
                let mut shortener = Shortener::default();
                shortener.push(held);
                shortener.push(bytes);
                self.begun = PartialLine::Long(shortener);
            }
            PartialLine::Long(shortener) if shortener.kept() > LONGEST => self.begun = PartialLine::TooLong,
            PartialLine::Long(shortener) => shortener.push(bytes),
            PartialLine::TooLong => {}
        }
    }
}

#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Which file was read, so far as one was.
    file: Option<(u64, u64)>,
    offset: u64,
    mark: Vec<u8>,
    lines: Lines,
}

impl Tail {
    /// From the file's beginning.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), file: None, offset: 0, mark: Vec::new(), lines: Lines::default() }
    }

    /// From where a line begins that was not read yet.
    pub fn from(path: impl Into<PathBuf>, offset: u64) -> io::Result<Self> {
        let mut tail = Self { offset, ..Self::new(path) };
        let file = File::open(&tail.path)?;
        let start = offset.saturating_sub(MARK as u64);
        tail.mark = vec![0; usize::try_from(offset - start).unwrap_or(MARK)];
        file.read_exact_at(&mut tail.mark, start)?;
        tail.file = Some(identity(&file)?);
        Ok(tail)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands out what was added since the last time. A line without its end waits for it, and a file that
    /// is not there has nothing new.
    pub fn read(&mut self, mut each: impl FnMut(TailEvent)) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = identity(&file)?;
        if self.file.is_some_and(|before| before != now) || !self.continues(&file)? {
            *self = Self::new(std::mem::take(&mut self.path));
            each(TailEvent::Restarted);
        }
        self.file = Some(now);
        io::Seek::seek(&mut file, io::SeekFrom::Start(self.offset))?;
        let mut block = vec![0; BLOCK];
        loop {
            let read = match file.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let new = &block[..read];
            self.offset += read as u64;
            self.remember(new);
            self.lines.push(new, &mut each);
        }
    }

    /// Whether the file still has what we read last, where we read it.
    fn continues(&self, file: &File) -> io::Result<bool> {
        let mut there = vec![0; self.mark.len()];
        let start = self.offset - self.mark.len() as u64;
        match file.read_exact_at(&mut there, start) {
            Ok(()) => Ok(there == self.mark),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remember(&mut self, new: &[u8]) {
        self.mark.extend_from_slice(&new[new.len().saturating_sub(MARK)..]);
        self.mark.drain(..self.mark.len().saturating_sub(MARK));
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn append(path: &Path, bytes: &[u8]) {
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn new_in(tail: &mut Tail) -> Vec<String> {
        let mut found = Vec::new();
        let each = |piece: TailEvent| {
            found.push(match piece {
                TailEvent::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                TailEvent::Cut(line) => format!("cut {}", line.len()),
                TailEvent::Restarted => "anew".into(),
            })
        };
        tail.read(each).unwrap();
        found
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        (dir, path)
    }

    #[test]
    fn only_what_is_new_comes_and_half_a_line_waits_for_its_end() {
        let (_dir, path) = folder();
        let mut tail = Tail::new(&path);
        assert_eq!(new_in(&mut tail), [""; 0]);
        append(&path, b"one\ntw");
        assert_eq!(new_in(&mut tail), ["one"]);
        append(&path, b"o");
        assert_eq!(new_in(&mut tail), [""; 0]);
        append(&path, b"\n\nthree\n");
        assert_eq!(new_in(&mut tail), ["two", "", "three"]);
        assert_eq!(new_in(&mut Tail::from(&path, 4).unwrap()), ["two", "", "three"]);
    }

    #[test]
    fn a_file_that_was_cut_replaced_or_written_anew_is_read_from_its_beginning() {
        let (_dir, path) = folder();
        append(&path, b"one\ntwo\n");
        let mut tail = Tail::new(&path);
        assert_eq!(new_in(&mut tail).len(), 2);

        fs::write(&path, b"cut\n").unwrap();
        assert_eq!(new_in(&mut tail), ["anew", "cut"]);

        let other = path.with_extension("new");
        fs::write(&other, b"cut\nreplaced\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(new_in(&mut tail), ["anew", "cut", "replaced"]);

        fs::write(&path, b"longer than what was there before\n").unwrap();
        assert_eq!(new_in(&mut tail), ["anew", "longer than what was there before"]);

        fs::remove_file(&path).unwrap();
        assert_eq!(new_in(&mut tail), [""; 0]);
        append(&path, b"back\n");
        assert_eq!(new_in(&mut tail), ["anew", "back"]);
    }

    #[test]
    fn a_line_that_is_too_long_comes_cut_however_it_arrives() {
        let (_dir, path) = folder();
        let mut tail = Tail::new(&path);
        append(&path, b"{\"type\":\"user\",\"image\":\"");
        for _ in 0..20 {
            append(&path, &vec![b'x'; LONGEST / 8]);
            assert_eq!(new_in(&mut tail), [""; 0]);
        }
        append(&path, b"\"}\nafter\n");
        let found = new_in(&mut tail);
        assert!(found[0].starts_with("cut 4"), "{found:?}");
        assert_eq!(found[1], "after");
    }

    #[test]
    fn what_cannot_be_made_short_is_passed_by() {
        let mut lines = Lines::default();
        let mut found = 0;
        for _ in 0..4 {
            lines.push(&b"[1],".repeat(LONGEST / 8), &mut |_| found += 1);
        }
        lines.push(&b"[1],".repeat(LONGEST / 8), &mut |_| found += 1);
        lines.push(b"]\nnext\n", &mut |piece| {
            assert_eq!(piece, TailEvent::Line(b"next"));
            found += 10;
        });
        assert_eq!(found, 10);
    }
}
