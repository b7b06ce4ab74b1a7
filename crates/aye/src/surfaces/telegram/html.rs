//! Text for Telegram: marked up for those who can show it, plain for when that is refused, and counted as
//! Telegram counts it, in UTF-16 units after its markup is taken out.

use super::exact;

/// The longest message Telegram takes.
pub const LONGEST: usize = 4096;
/// The longest text with its markup, in bytes.
const LONGEST_SOURCE: usize = 32_000;
/// Beyond a hundred blocks of code Telegram drops their markup, and with it where each of them ends.
const MOST_BLOCKS: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RichText {
    html: String,
    plain: String,
    /// Blocks and stretches of code.
    blocks: usize,
}

impl RichText {
    pub fn html(&self) -> &str {
        &self.html
    }

    pub fn plain(&self) -> &str {
        &self.plain
    }

    pub fn length(&self) -> usize {
        length(&self.plain)
    }

    pub fn fits(&self) -> bool {
        self.length() <= LONGEST && self.html.len() <= LONGEST_SOURCE && self.blocks <= MOST_BLOCKS
    }

    /// The beginning of a page that is too long, without its markup.
    pub fn fitting(self) -> Self {
        if self.fits() {
            return self;
        }
        let (start, _) = cut(&self.plain, LONGEST - 2);
        let mut page = Self::default().written(start);
        page.html.push('…');
        page.plain.push('…');
        page
    }

    /// Text of any origin; what Telegram would change and what hides is shown.
    pub fn text(self, text: &str) -> Self {
        self.written(&exact::prose(text))
    }

    /// What `exact` has written already.
    pub fn written(mut self, shown: &str) -> Self {
        escape(shown, &mut self.html);
        self.plain += shown;
        self
    }

    pub fn bold(self, text: &str) -> Self {
        self.tagged("b", &exact::words(text))
    }

    /// What `exact` has written already.
    pub fn bold_written(self, shown: &str) -> Self {
        self.tagged("b", shown)
    }

    /// What `exact` has written already.
    pub fn dim_written(self, shown: &str) -> Self {
        self.tagged("i", shown)
    }

    /// A person, so that Telegram tells them.
    pub fn mention(mut self, user: i64, name: &str) -> Self {
        let shown = exact::words(name);
        self.blocks += 1;
        self.html += &format!("<a href=\"tg://user?id={user}\">");
        escape(&shown, &mut self.html);
        self.html += "</a>";
        self.plain += &shown;
        self
    }

    pub fn dim(self, text: &str) -> Self {
        self.tagged("i", &exact::words(text))
    }

    /// What the signs in this page stand for.
    pub fn legend(self) -> Self {
        match exact::legend(&self.plain) {
            Some(legend) => self.tagged("i", &legend).line(),
            None => self,
        }
    }

    /// Code on one line, every character of it.
    pub fn code(mut self, text: &str) -> Self {
        self.blocks += 1;
        self.tagged("code", &exact::line(text))
    }

    /// A block of code in a language.
    pub fn fenced(mut self, language: &str, code: &str) -> Self {
        if language.is_empty() {
            return self.pre(code);
        }
        self.blocks += 1;
        let shown = exact::block(code);
        self.html += &format!("<pre><code class=\"language-{language}\">");
        escape(&shown, &mut self.html);
        self.html += "</code></pre>";
        self.plain += &shown;
        self
    }

    /// A block that keeps its lines and spaces, every character of it.
    pub fn pre(mut self, text: &str) -> Self {
        self.blocks += 1;
        self.tagged("pre", &exact::block(text))
    }

    pub fn line(self) -> Self {
        self.text("\n")
    }

    pub fn page(mut self, other: &RichText) -> Self {
        self.html += &other.html;
        self.plain += &other.plain;
        self.blocks += other.blocks;
        self
    }

    fn tagged(mut self, tag: &str, shown: &str) -> Self {
        // An entity without text would be dropped, and one of blanks is trimmed away.
        if shown.trim().is_empty() {
            escape(shown, &mut self.html);
        } else {
            self.html += &format!("<{tag}>");
            escape(shown, &mut self.html);
            self.html += &format!("</{tag}>");
        }
        self.plain += shown;
        self
    }
}

pub fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

/// At most this many units of the text, and whether that is all of it.
pub fn cut(text: &str, most: usize) -> (&str, bool) {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > most {
            return (&text[..at], false);
        }
    }
    (text, true)
}

/// A label for a button: one line, and short, because a phone shows no more. Never the only place of a text.
pub fn label(text: &str, most: usize) -> String {
    let line = exact::words(text.trim());
    match cut(&line, most) {
        (whole, true) => whole.to_owned(),
        (start, false) => format!("{}…", start.trim_end()),
    }
}

/// Cuts a long text into pieces that each fit, at the ends of lines or words where there are any.
pub fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (start, whole) = cut(rest, most.max(2));
        if whole {
            pieces.push(rest);
            return pieces;
        }
        let after = |c: char| start.rfind(c).map(|at| at + 1).filter(|at| *at > start.len() / 2);
        let at = after('\n').or_else(|| after(' ')).unwrap_or(start.len());
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_only_text_and_what_hides_is_shown() {
        let page = RichText::default().bold("<b>&\"").text(" a\u{202e}b").pre("x < y\n").code("\n");
        assert_eq!(page.html(), "<b>&lt;b&gt;&amp;&quot;</b> a\\u{202e}b<pre>x &lt; y⏎</pre><code>⏎</code>");
        assert_eq!(page.plain(), "<b>&\" a\\u{202e}bx < y⏎⏎");
    }

    #[test]
    fn length_is_counted_as_telegram_counts_it() {
        assert_eq!(RichText::default().bold("a<").text("😀").length(), 4);
        assert!(RichText::default().text(&"<".repeat(LONGEST)).fits());
        assert!(!RichText::default().text(&"😀".repeat(LONGEST / 2 + 1)).fits());
    }

    #[test]
    fn more_blocks_than_telegram_marks_do_not_fit() {
        let blocks = |count: usize| (0..count).fold(RichText::default(), |page, _| page.code("x").text(" "));
        assert!(blocks(100).fits() && !blocks(101).fits());
    }

    #[test]
    fn pieces_are_the_whole_text_and_each_fits() {
        let text = "one\ntwo😀\n".repeat(50);
        let cut = pieces(&text, 21);
        assert_eq!(cut.concat(), text);
        assert!(cut.iter().all(|piece| length(piece) <= 21 && piece.ends_with('\n')));
        assert_eq!(pieces(&"x".repeat(5), 2), ["xx", "xx", "x"]);
        assert_eq!(pieces("", 5), [""]);
    }
}
