//! The change of a file as the terminal draws it: every line with its number, and with a sign if it goes or comes. What
//! is drawn must lead from the file as it is to the file as it would be.

use super::screen::squeezed;
use std::collections::BTreeMap;

/// Lines by their numbers.
type Lines = BTreeMap<usize, String>;

/// Whether this is all of the content of a new file.
pub fn shows_all(shown: &[String], content: &str) -> bool {
    let rows = read(shown, false);
    rows.is_some_and(|rows| rows.into_iter().map(|row| (row.number, row.text)).eq(numbered(content)))
}

/// Whether these lines are the whole way from the one text to the other.
pub fn shows_change(shown: &[String], before: &str, after: &str) -> bool {
    let Some(rows) = read(shown, true) else { return false };
    let with = |sign: char| -> Lines {
        let rows = rows.iter().filter(|row| row.sign == sign);
        rows.map(|row| (row.number, row.text.clone())).collect()
    };
    let (gone, come) = (with('-'), with('+'));
    let (old, new) = (numbered(before), numbered(after));
    let are_in = |some: &Lines, all: &Lines| some.iter().all(|(number, text)| all.get(number) == Some(text));
    let without = |all: &Lines, some: &Lines| -> Vec<String> {
        let kept = all.iter().filter(|(number, text)| !some.contains_key(number) && !text.is_empty());
        kept.map(|(_, text)| text.clone()).collect()
    };
    !(gone.is_empty() && come.is_empty())
        && are_in(&gone, &old)
        && are_in(&come, &new)
        && without(&old, &gone) == without(&new, &come)
}

fn numbered(text: &str) -> Lines {
    (1..).zip(text.lines().map(squeezed)).collect()
}

struct Row {
    number: usize,
    /// A space where a line stays, and where nothing has a sign.
    sign: char,
    text: String,
}

/// None where something stands there that is no such line.
fn read(shown: &[String], signed: bool) -> Option<Vec<Row>> {
    // Numbers end at the same column, and what is wrapped has none.
    let first: Vec<char> = shown.first()?.chars().collect();
    let digits = first.iter().position(char::is_ascii_digit)?;
    let gutter = digits + first[digits..].iter().take_while(|c| c.is_ascii_digit()).count();
    let mut rows: Vec<Row> = Vec::new();
    for line in shown {
        let number: String = line.chars().take(gutter).collect();
        let mut rest = line.chars().skip(gutter + 1);
        let sign = if signed { rest.next().unwrap_or(' ') } else { ' ' };
        let text = squeezed(&rest.collect::<String>());
        match (number.trim(), rows.last_mut()) {
            // Lines that stay are left out here.
            _ if signed && line.trim() == "..." && !number.trim().is_empty() => {}
            ("", Some(row)) if row.sign == sign => row.text += &text,
            (number, _) => rows.push(Row { number: number.parse().ok()?, sign, text }),
        }
    }
    rows.iter().all(|row| [' ', '-', '+'].contains(&row.sign)).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(shown: &str) -> Vec<String> {
        shown.lines().map(str::to_owned).collect()
    }

    /// As versions 2.1.325 and 2.1.197 draw it.
    const SHOWN: &str = "   1  line 1
   2  line 2
   3 -line three
   4 -A long line that goes on and on: 12 -min
     -us and 13 +plus.
   3 +line 3
   4  line 4
   5  a long line that stays and
      7 is wrapped
   6  line 6
 ...
  10  line 10
  12 -line 11
  11 +end";
    const BEFORE: &str = "line 1\nline 2\nline three\nA long line that goes on and on: 12 -minus and 13 +plus.\n\
        line 4\na long line that stays and 7 is wrapped\nline 6\nline 7\nline 8\nline 9\nline 10\nline 11\n";
    const AFTER: &str = "line 1\nline 2\nline 3\nline 4\na long line that stays and 7 is wrapped\nline 6\nline 7\n\
        line 8\nline 9\nline 10\nend\n";

    #[test]
    fn a_change_is_recognized_only_if_all_of_it_is_shown() {
        let shown = lines(SHOWN);
        assert!(shows_change(&shown, BEFORE, AFTER));
        for other in [
            AFTER.replace("line 3", "line 3 and more"),
            AFTER.replace("line 8", "something else"),
            AFTER.replace("end", "line 11"),
            format!("{AFTER}more\n"),
            BEFORE.to_owned(),
        ] {
            assert!(!shows_change(&shown, BEFORE, &other), "{other}");
        }
        assert!(!shows_change(&shown, &BEFORE.replace("line 8", "line eight"), AFTER));
        for at in 0..shown.len() {
            let mut less = shown.clone();
            let missing = less.remove(at);
            let is_change = missing.chars().nth(5).is_some_and(|sign| sign == '-' || sign == '+');
            assert!(!is_change || !shows_change(&less, BEFORE, AFTER), "{missing}");
        }
        assert!(!shows_change(&lines("nothing"), BEFORE, AFTER) && !shows_change(&[], BEFORE, AFTER));
        let removed = lines(" 1  a\n 2 -b\n 2  c");
        assert!(shows_change(&removed, "a\nb\nc\n", "a\nc\n"));
        assert!(!shows_change(&removed, "a\nb\nc\n", "c\n"));
    }

    #[test]
    fn a_new_file_is_recognized_only_by_all_of_its_content() {
        let shown = lines(
            "  1 one\n  2         two\n  3 A very long line, 12 -min\n    us and on.\n  4\n  5 1 -fake\n  6 last",
        );
        let content = "one\n\ttwo\nA very long line, 12 -minus and on.\n\n1 -fake\nlast";
        assert!(shows_all(&shown, content) && shows_all(&shown, &format!("{content}\n")));
        for other in ["one\n\ttwo\n", "", &content.replace("fake", "other"), &format!("{content}\nmore")] {
            assert!(!shows_all(&shown, other), "{other}");
        }
    }
}
