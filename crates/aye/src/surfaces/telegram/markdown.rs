//! Markdown as Telegram shows it: code, bold words and headings. Only marks that can be read back from what is shown
//! are taken out of a text, so that a plan is still shown to the letter.

use super::exact;
use super::html::RichText;

const FENCE: &str = "```";
/// Beyond it a text is shown as it is written; Telegram keeps a hundred.
const MOST_MARKS: usize = 60;

impl RichText {
    /// A text in Markdown.
    pub fn markdown(self, text: &str) -> Self {
        blocks(self, text, lines)
    }
}

/// Blocks of code as such, and what is between them as `between` shows it.
pub fn blocks(page: RichText, text: &str, between: fn(RichText, &str) -> RichText) -> RichText {
    if text.matches('`').count() / 2 > MOST_MARKS {
        return page.text(text);
    }
    let mut page = page;
    let mut rest = text;
    while let Some((before, block, after)) = next_block(rest) {
        page = between(page, before);
        page = page.fenced(block.language, block.code);
        rest = after;
    }
    between(page, rest)
}

struct Block<'a> {
    language: &'a str,
    code: &'a str,
}

/// The next block between two fences, and the text before and after it.
fn next_block(text: &str) -> Option<(&str, Block<'_>, &str)> {
    let mut start = 0;
    loop {
        let at = start + text[start..].find(FENCE)?;
        let inside = &text[at + FENCE.len()..];
        let begins_line = at == 0 || text[..at].ends_with('\n');
        if begins_line
            && let Some((language, body)) = inside.split_once('\n')
            && language.chars().all(|c| c.is_ascii_alphanumeric() || "+-_".contains(c))
            && let Some(end) = body.find(&format!("\n{FENCE}"))
        {
            let after = &body[end + 1 + FENCE.len()..];
            let code = &body[..end];
            if (after.is_empty() || after.starts_with('\n')) && !code.is_empty() && !code.starts_with(FENCE) {
                return Some((&text[..at], Block { language, code }, after));
            }
        }
        start = at + FENCE.len();
    }
}

fn lines(mut page: RichText, text: &str) -> RichText {
    for line in text.split_inclusive('\n') {
        let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
        page = match is_heading(words) {
            true => page.bold_written(&exact::prose(words)),
            false => inline(page, words),
        };
        page = page.text(end);
    }
    page
}

/// A heading keeps its marks: how many there are is what it says.
pub fn is_heading(line: &str) -> bool {
    let title = line.trim_start_matches('#');
    let marks = line.len() - title.len();
    (1..=6).contains(&marks) && title.starts_with(' ') && !title.trim().is_empty() && !title.ends_with(' ')
}

fn inline(mut page: RichText, line: &str) -> RichText {
    let mut rest = line;
    let mut plain = 0;
    // Two bold stretches side by side would become one.
    let mut after_bold = false;
    while plain < rest.len() {
        let here = &rest[plain..];
        let code = between(here, "`").filter(|code| !code.contains('`'));
        let bold = between(here, "**").filter(|bold| !bold.contains(['*', '`']) && !bold.starts_with('#'));
        match (code, bold.filter(|_| plain > 0 || !after_bold)) {
            (Some(code), _) => {
                page = page.text(&rest[..plain]).code(code);
                rest = &here[code.len() + 2..];
                after_bold = false;
            }
            (None, Some(bold)) => {
                page = page.text(&rest[..plain]).bold_written(&exact::prose(bold));
                rest = &here[bold.len() + 4..];
                after_bold = true;
            }
            (None, None) => {
                plain += here.chars().next().map_or(1, char::len_utf8);
                continue;
            }
        }
        plain = 0;
    }
    page.text(rest)
}

/// The text between two of these marks at the beginning, if it touches both.
fn between<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(mark)?;
    let inner = &inner[..inner.find(mark)?];
    let touches = !inner.is_empty() && inner.trim() == inner;
    touches.then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_bold_words_and_headings_are_marked_and_nothing_else_is() {
        let text = "# Plan\n1. **fix** `a < b`\n```rust\nfn x() {}\n```\n* not bold ** either, 2*3*4, ** x **\n####### no\n```";
        assert_eq!(
            RichText::default().markdown(text).html(),
            "<b># Plan</b>\n1. <b>fix</b> <code>a &lt; b</code>\n\
             <pre><code class=\"language-rust\">fn x() {}</code></pre>\n\
             * not bold ** either, 2*3*4, ** x **\n####### no\n```"
        );
        assert_eq!(RichText::default().markdown("**a****b**").html(), "<b>a</b>**b**");
    }
}
