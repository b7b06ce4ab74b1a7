//! Markdown without its marks, for what an agent says. Nothing is approved on it, so it need not read back to the letter,
//! but everything stays visible: a link shows its address.

use super::exact;
use super::html::RichText;
use super::markdown::{blocks, is_heading};

const BULLETS: [&str; 3] = ["- ", "* ", "+ "];

impl RichText {
    /// A text in Markdown, without its marks.
    pub fn rendered(self, text: &str) -> Self {
        blocks(self, text, lines)
    }
}

fn lines(mut page: RichText, text: &str) -> RichText {
    let mut rest = text;
    while !rest.is_empty() {
        let table = table_at(rest);
        if table > 0 {
            let rows = &rest[..table];
            page = page.pre(rows.trim_end_matches('\n'));
            page = if rows.ends_with('\n') { page.line() } else { page };
            rest = &rest[table..];
            continue;
        }
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        page = match line.strip_suffix('\n') {
            Some(line) => self::line(page, line).line(),
            None => self::line(page, line),
        };
        rest = after;
    }
    page
}

/// The length of the table at the beginning of a text; 0 if there is none.
fn table_at(text: &str) -> usize {
    let is_row = |line: &&str| line.trim_start().starts_with('|') && line.trim_end().ends_with('|');
    let rows: Vec<_> = text.split_inclusive('\n').take_while(is_row).collect();
    let is_rule = |row: &&str| row.contains("--") && row.chars().all(|c| "|-: \n".contains(c));
    if rows.get(1).is_some_and(is_rule) { rows.iter().map(|row| row.len()).sum() } else { 0 }
}

fn line(page: RichText, line: &str) -> RichText {
    if is_heading(line.trim_end()) {
        return page.bold_written(&exact::prose(&without_marks(line.trim_start_matches('#').trim())));
    }
    let words = line.trim_start_matches([' ', '\t']);
    let indent = &line[..line.len() - words.len()];
    match BULLETS.iter().find_map(|bullet| words.strip_prefix(bullet)) {
        Some(item) => inline(page.text(indent).text("• "), item),
        None => inline(page, line),
    }
}

/// A heading is bold as a whole.
fn without_marks(heading: &str) -> String {
    heading.replace("**", "").replace('`', "")
}

fn inline(mut page: RichText, line: &str) -> RichText {
    let mut rest = line;
    let mut plain = 0;
    while plain < rest.len() {
        let (before, here) = rest.split_at(plain);
        let follows_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        let (marked, length) = if let Some(code) = between(here, "`") {
            (page.clone().text(before).code(code), code.len() + 2)
        } else if let Some(bold) =
            between(here, "**").or_else(|| between(here, "__").filter(|_| !follows_word))
        {
            (page.clone().text(before).bold_written(&exact::prose(&bold.replace('`', ""))), bold.len() + 4)
        } else if let Some(words) = emphasis(here).filter(|_| !follows_word) {
            (page.clone().text(before).dim_written(&exact::prose(words)), words.len() + 2)
        } else if let Some((words, address, length)) = link(here) {
            let page = page.clone().text(before);
            let page = if words == address { page } else { page.text(words).text(" (") };
            let page = page.text(address);
            (if words == address { page } else { page.text(")") }, length)
        } else {
            plain += here.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        page = marked;
        rest = &here[length..];
        plain = 0;
    }
    page.text(rest)
}

/// The text between two of these marks at the beginning, if it touches both.
fn between<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(mark)?;
    let inner = &inner[..inner.find(mark)?];
    (!inner.is_empty() && inner.trim() == inner).then_some(inner)
}

/// `*so*` or `_so_`, around words only: `a_b` and `2*3*4` are no emphasis.
fn emphasis(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '*' | '_'))?;
    let inner = between(text, &mark.to_string())?;
    let after = text[inner.len() + 2..].chars().next();
    let ends = after.is_none_or(|c| !c.is_alphanumeric() && c != mark);
    (ends && inner.starts_with(char::is_alphanumeric)).then_some(inner)
}

/// `[words](https://…)`: the words, the address, and how long all of it is.
fn link(text: &str) -> Option<(&str, &str, usize)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (address, _) = rest.split_once(')')?;
    let is_link = !words.is_empty() && !words.contains(['[', ']']) && address.contains("://");
    let plain = is_link && !address.contains(char::is_whitespace);
    plain.then(|| (words, address, words.len() + address.len() + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_shown_without_its_marks() {
        let text = "## Result\nAll **12** tests *pass*, see `src/a_b.rs` and __main__.\n\n- one\n  * two\n1. three\n\n\
                    [docs](https://example.org/x) 2*3*4 snake_case_name # no\n\n\
                    | a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn x() {}\n```\nDone.";
        insta::assert_snapshot!(RichText::default().rendered(text).html(), @r#"
        <b>Result</b>
        All <b>12</b> tests <i>pass</i>, see <code>src/a_b.rs</code> and <b>main</b>.

        • one
          • two
        1. three

        docs (https://example.org/x) 2*3*4 snake_case_name # no

        <pre>| a | b |
        |---|---|
        | 1 | 2 |</pre>

        <pre><code class="language-rust">fn x() {}</code></pre>
        Done.
        "#);
    }

    #[test]
    fn marks_that_are_none_stay_as_they_are() {
        for text in ["**", "* ", "`", "a ** b", "[x](y)", "#!/bin/sh", "__", "| a |", "-", "**a"] {
            assert_eq!(
                RichText::default().rendered(text).plain().replace('•', "*").trim(),
                text.trim(),
                "{text}"
            );
        }
    }
}
