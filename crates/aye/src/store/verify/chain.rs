//! The chain itself: no line changed, none missing, and none written by anybody but the hub where it is keyed.

use super::super::keying::{CUT, DOUBTED, KEYED, REKEYED};
use super::{Against, Verified, VerifyError};
use crate::home::ChainKeyFile;
use aye_core::trail::{Chain, Line};

pub struct Following<'a> {
    chain: Chain,
    file: Option<&'a ChainKeyFile>,
    contains: Option<&'a str>,
    /// The newest line that the hub noted beside the database, until it is found.
    noted: Option<&'a Chain>,
    part: Part,
    /// Where the keyed part begins.
    keyed_from: Option<u64>,
    /// Lines whose key is not at hand, from the first of them on.
    unknown: Option<(u64, u64)>,
    /// Where a key was lost, and the name of that key.
    lost: Vec<(u64, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Unkeyed,
    /// With a key that is not the one in `chain.key`.
    Unknown,
    Ours,
}

impl<'a> Following<'a> {
    pub fn new(against: &'a Against) -> Self {
        Self {
            chain: Chain::default(),
            file: against.key.as_ref(),
            contains: against.contains.as_deref(),
            noted: against.head.as_ref(),
            part: Part::Unkeyed,
            keyed_from: None,
            unknown: None,
            lost: Vec::new(),
        }
    }

    pub fn lines(&self) -> u64 {
        self.chain.lines
    }

    pub fn head(&self) -> &str {
        &self.chain.head
    }

    pub fn take(&mut self, line: &Line, hash: &str) -> Result<(), VerifyError> {
        if matches!(line.kind.as_str(), KEYED | REKEYED) {
            self.enter_part(line)?;
        }
        match self.part {
            Part::Unkeyed => self.chain.follow(line, hash, None)?,
            Part::Ours => self.chain.follow(line, hash, self.file.map(|file| &file.key))?,
            Part::Unknown => {
                self.chain.pass_by(line.seq, hash)?;
                let (_, count) = self.unknown.get_or_insert((line.seq, 0));
                *count += 1;
            }
        }
        if self.part == Part::Ours && line.kind == CUT {
            let (lines, head) = (&line.detail["line"], &line.detail["head"]);
            return Err(VerifyError::Keyed(format!(
                "when the hub started (line {}), lines that it had written before were gone, up to line {lines} with \
                 the head {head}. If you put back or removed the database yourself, remove chain.key as well: the hub \
                 then begins with a new key and says so",
                line.seq
            )));
        }
        if self.part == Part::Ours && line.kind == DOUBTED {
            return Err(VerifyError::Keyed(format!(
                "when the hub started (line {}), agents, grants, tokens, passkeys or approvals in advance were not as it \
                 had left them, and it ended what stood. To go on from there, remove chain.key: the hub then begins with \
                 a new key and says so",
                line.seq
            )));
        }
        if self.noted.is_some_and(|noted| (noted.lines, noted.head.as_str()) == (line.seq, hash)) {
            self.noted = None;
        }
        if self.contains == Some(hash) {
            self.contains = None;
        }
        Ok(())
    }

    fn enter_part(&mut self, line: &Line) -> Result<(), VerifyError> {
        let wrong = |problem: &str| VerifyError::Keyed(format!("line {} {problem}", line.seq));
        match (line.kind.as_str(), self.keyed_from) {
            (KEYED, Some(_)) => return Err(wrong("says a second time that it begins")),
            (REKEYED, None) => return Err(wrong("changes a key that was never used")),
            _ => {}
        }
        self.keyed_from.get_or_insert(line.seq);
        if let Some(lost) = line.detail["lost"].as_str() {
            self.lost.push((line.seq, lost.to_owned()));
        }
        let names = |file: &ChainKeyFile| line.detail["key"] == file.key.id().as_str();
        let is_ours = self.file.is_some_and(names);
        // Nobody but the hub can write after the line that begins with its key, and the hub has only this one.
        if self.part == Part::Ours || (is_ours && self.file.is_some_and(|file| file.line != line.seq)) {
            return Err(wrong("begins it where chain.key does not"));
        }
        self.part = if is_ours { Part::Ours } else { Part::Unknown };
        Ok(())
    }

    /// `is_old`: the database was last opened by a version that did not key its trail.
    pub fn finish(self, is_old: bool, verified: &mut Verified) -> Result<(), VerifyError> {
        if self.contains.is_some() {
            return Err(VerifyError::Cut);
        }
        match (self.keyed_from, self.file) {
            (None, None) if is_old => verified.remarks.push(
                "It is not keyed yet, so whoever can write the database could have rewritten it. \
                 The next start of the hub makes a key."
                    .to_owned(),
            ),
            (None, _) => {
                return Err(VerifyError::Keyed("the line that begins it is missing".to_owned()));
            }
            (Some(_), Some(file)) if self.part != Part::Ours => {
                return Err(VerifyError::Keyed(format!(
                    "line {} should begin it with the key in chain.key, and does not",
                    file.line
                )));
            }
            (Some(_), _) => {}
        }
        if let Some(noted) = self.noted.filter(|noted| noted.lines > 0) {
            return Err(VerifyError::Replaced { line: noted.lines });
        }
        if let Some((first, count)) = self.unknown {
            let why = match self.file {
                None => "chain.key is not there",
                Some(_) => "the key they were written with is lost",
            };
            let until = first + count - 1;
            verified.unchecked.push(format!(
                "Lines {first} to {until} are keyed, and {why}: only the lines before them are known to be as they were written."
            ));
        }
        for (line, lost) in self.lost {
            verified.unchecked.push(format!(
                "At line {line} the hub made a new key, because {lost}, the one before it, was gone."
            ));
        }
        Ok(())
    }
}
