//! Lines from an agent, each with a limit: a line that never ends must not take all memory.

use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longer lines are skipped; their beginning and end are kept, to see what they were.
pub const LONGEST: usize = 16 * 1024 * 1024;
const KEPT: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    TooLong { beginning: Vec<u8>, end: Vec<u8>, length: usize },
}

/// The next line without its end; none at the end of the stream. A last line without an end counts.
pub async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Line>> {
    let (mut line, mut end, mut length) = (Vec::new(), Vec::new(), 0);
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            return Ok((length > 0).then(|| finish(line, end, length, longest)));
        }
        let line_end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..line_end.unwrap_or(chunk.len())];
        length += part.len();
        if length <= longest {
            line.extend_from_slice(part);
        } else {
            // The end may begin in what was read before the line was known to be too long.
            let before = if end.is_empty() { &line[line.len().saturating_sub(KEPT)..] } else { &end[..] };
            let mut latest = [before, &part[part.len().saturating_sub(KEPT)..]].concat();
            end = latest.split_off(latest.len().saturating_sub(KEPT));
            let room = KEPT.saturating_sub(line.len()).min(part.len());
            line.extend_from_slice(&part[..room]);
            line.truncate(KEPT);
        }
        let used = part.len() + usize::from(line_end.is_some());
        reader.consume(used);
        if line_end.is_some() {
            return Ok(Some(finish(line, end, length, longest)));
        }
    }
}

fn finish(line: Vec<u8>, end: Vec<u8>, length: usize, longest: usize) -> Line {
    match length > longest {
        true => Line::TooLong { beginning: line, end, length },
        false => Line::Whole(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn lines(bytes: &[u8], buffer: usize, longest: usize) -> Vec<Line> {
        let mut reader = BufReader::with_capacity(buffer, bytes);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader, longest).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_arrive() {
        for buffer in [1, 2, 3, 100] {
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(
                lines(b"ab\n\ncdef\ng", buffer, 10).await,
                [whole("ab"), whole(""), whole("cdef"), whole("g")]
            );
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_by_and_the_next_is_read() {
        for buffer in [1, 7, 100] {
            let found = lines(b"0123456789\nok\n", buffer, 4).await;
            assert_eq!(found[1], Line::Whole(b"ok".to_vec()));
            let all = b"0123456789".to_vec();
            assert_eq!(found[0], Line::TooLong { beginning: all.clone(), end: all, length: 10 });
        }
    }

    #[tokio::test]
    async fn of_an_endless_line_only_its_beginning_and_its_end_are_kept() {
        let mut bytes = vec![b'x'; 100_000];
        bytes[0] = b'a';
        bytes[99_999] = b'z';
        for buffer in [10, 1000, 200_000] {
            let found = lines(&bytes, buffer, 5000).await;
            let [Line::TooLong { beginning, end, length: 100_000 }] = &found[..] else { panic!("{found:?}") };
            assert_eq!((beginning.len(), end.len()), (KEPT, KEPT));
            assert_eq!((beginning[0], end[KEPT - 1]), (b'a', b'z'));
        }
    }
}
