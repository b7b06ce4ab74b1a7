//! Colours. They are always written; `anstream` takes them out where nobody would see them.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

pub const HEAD: Style = Style::new().bold();
pub const NAME: Style = AnsiColor::Cyan.on_default();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
