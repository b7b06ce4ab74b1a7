//! Keys as tmux takes them. No shell is involved, but tmux has rules of its own.

/// Longer texts are not typed: they would not fit on the screen that they are checked on.
const LONGEST: usize = 2000;
const MOST_LINES: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// The number of a row.
    Digit(u8),
    /// Words, as they are.
    Text(TypeableText),
    Up,
    Down,
    Tab,
    Enter,
    Escape,
    /// Opens the notes beside options with previews.
    Notes,
}

/// Text that means the same typed as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeableText(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untypeable {
    #[error("a text with control characters cannot be typed into the terminal")]
    Control,
    #[error(
        "a text of more than {LONGEST} characters or {MOST_LINES} lines cannot be typed into the terminal"
    )]
    Long,
}

impl TypeableText {
    pub fn new(text: &str) -> Result<Self, Untypeable> {
        // Some separators that are no control characters are line breaks all the same.
        let controls = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{2028}' | '\u{2029}');
        if text.contains(controls) {
            return Err(Untypeable::Control);
        }
        if text.chars().count() > LONGEST || text.lines().count() > MOST_LINES {
            return Err(Untypeable::Long);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enter would submit the first line, so text with line breaks is pasted; this is what tmux takes for its buffer.
    pub fn to_paste(&self) -> Option<String> {
        self.0.contains('\n').then(|| escaped(&self.0))
    }
}

impl Key {
    /// The arguments behind `send-keys -t PANE`.
    pub fn arguments(&self) -> Vec<String> {
        let literal = |text: String| vec!["-l".into(), "--".into(), text];
        let named = |name: &str| vec![name.to_owned()];
        match self {
            Key::Digit(digit) => literal(digit.to_string()),
            Key::Text(text) => literal(escaped(text.as_str())),
            Key::Notes => literal("n".into()),
            Key::Up => named("Up"),
            Key::Down => named("Down"),
            Key::Tab => named("Tab"),
            Key::Enter => named("Enter"),
            Key::Escape => named("Escape"),
        }
    }
}

/// tmux takes a semicolon at the end of an argument for the end of the command.
fn escaped(text: &str) -> String {
    match text.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_as_one_argument_that_tmux_does_not_take_apart() {
        let sent = |text: &str| Key::Text(TypeableText::new(text).unwrap()).arguments();
        assert_eq!(sent("a; b"), ["-l", "--", "a; b"]);
        assert_eq!(sent("a;"), ["-l", "--", "a\\;"]);
        assert_eq!(sent("a;;"), ["-l", "--", "a;\\;"]);
        assert_eq!(sent("-X $HOME 'x' \"y\" ü日😀"), ["-l", "--", "-X $HOME 'x' \"y\" ü日😀"]);
        assert_eq!(sent("Enter"), ["-l", "--", "Enter"]);
    }

    #[test]
    fn what_is_more_than_text_is_refused() {
        for text in ["a\rb", "\u{1b}[A", "\u{7f}", "\t", "\u{9b}1m", "a\u{2028}b"] {
            assert_eq!(TypeableText::new(text), Err(Untypeable::Control), "{text:?}");
        }
        assert_eq!(TypeableText::new(&"x".repeat(2001)), Err(Untypeable::Long));
        assert_eq!(TypeableText::new(&"x\n".repeat(21)), Err(Untypeable::Long));
        assert_eq!(TypeableText::new("a\nb;").unwrap().to_paste().as_deref(), Some("a\nb\\;"));
        assert_eq!(TypeableText::new("a; b").unwrap().to_paste(), None);
    }
}
