//! Markup as Telegram reads it, and what it refuses: `parse_html` and `decode_html_entity` in tdlib's
//! `td/telegram/MessageEntity.cpp`, and "HTML style" in the Bot API's documentation.

const TAGS: [&str; 16] = [
    "b",
    "strong",
    "i",
    "em",
    "u",
    "ins",
    "s",
    "strike",
    "del",
    "tg-spoiler",
    "tg-emoji",
    "span",
    "a",
    "code",
    "pre",
    "blockquote",
];

/// A stretch of a text with a meaning; places are counted in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub kind: &'static str,
    /// Where a link leads, or the language of a block.
    pub argument: String,
    pub start: usize,
    pub end: usize,
}

/// A text with its markup taken out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marked {
    pub text: Vec<char>,
    pub entities: Vec<Entity>,
}

impl Marked {
    pub fn plain(&self) -> String {
        self.text.iter().collect()
    }

    pub fn of(&self, entity: &Entity) -> String {
        self.text[entity.start..entity.end].iter().collect()
    }
}

struct Open {
    tag: &'static str,
    argument: String,
    start: usize,
}

/// The text and its entities, or what is wrong with it.
pub fn parse(html: &str) -> Result<Marked, String> {
    let mut marked = Marked::default();
    let mut open: Vec<Open> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        let at = html.len() - rest.len();
        match c {
            '<' => {
                let end = rest.find('>').ok_or_else(|| format!("Unclosed start tag at byte offset {at}"))?;
                let tag = &rest[1..end];
                rest = &rest[end + 1..];
                match tag.strip_prefix('/') {
                    Some(name) => close(&mut marked, &mut open, name.trim(), at)?,
                    None => {
                        let (tag, argument) = start_tag(tag, at)?;
                        nests(&open, tag, at)?;
                        open.push(Open { tag, argument, start: marked.text.len() });
                    }
                }
            }
            '&' => {
                let (c, length) = entity(rest).unwrap_or(('&', 1));
                marked.text.push(c);
                rest = &rest[length..];
            }
            c => {
                marked.text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    if let Some(open) = open.pop() {
        return Err(format!("Can't find end tag corresponding to start tag \"{}\"", open.tag));
    }
    marked.entities.sort_by_key(|entity| (entity.start, std::cmp::Reverse(entity.end)));
    Ok(marked)
}

/// Code has nothing else in it, but for the language of a block. Telegram would drop one of the two.
fn nests(open: &[Open], tag: &str, at: usize) -> Result<(), String> {
    let is_code = |tag: &str| matches!(tag, "code" | "pre");
    let outer = open.last().map(|open| open.tag);
    match outer {
        Some("pre") if tag == "code" => Ok(()),
        Some(outer) if is_code(outer) || is_code(tag) => {
            Err(format!("\"{tag}\" inside \"{outer}\" at byte offset {at}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn close(marked: &mut Marked, open: &mut Vec<Open>, name: &str, at: usize) -> Result<(), String> {
    let Some(expected) = open.pop() else { return Err(format!("Unexpected end tag at byte offset {at}")) };
    if !name.is_empty() && name.to_ascii_lowercase() != expected.tag {
        return Err(format!(
            "Unmatched end tag at byte offset {at}, expected \"</{}>\", found \"</{name}>\"",
            expected.tag
        ));
    }
    // A block of code with a language is one entity.
    let end = marked.text.len();
    let doubled = marked.entities.last().is_some_and(|inner| {
        expected.tag == "pre" && inner.kind == "code" && (inner.start, inner.end) == (expected.start, end)
    });
    let argument = match doubled {
        true => marked.entities.pop().map(|inner| inner.argument).unwrap_or_default(),
        false => expected.argument,
    };
    if expected.start < end {
        marked.entities.push(Entity { kind: expected.tag, argument, start: expected.start, end });
    }
    Ok(())
}

fn start_tag(tag: &str, at: usize) -> Result<(&'static str, String), String> {
    let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let name = name.to_ascii_lowercase();
    let known = TAGS.iter().find(|known| **known == name);
    let known = known.ok_or_else(|| format!("Unsupported start tag \"{name}\" at byte offset {at}"))?;
    let attributes = attributes.trim();
    if attributes.is_empty() {
        return match *known {
            "span" => Err(format!("Tag \"span\" must have class \"tg-spoiler\" at byte offset {at}")),
            known => Ok((known, String::new())),
        };
    }
    let (name, value) = attributes.split_once('=').ok_or_else(|| {
        format!(
            "Expected equal sign in declaration of an attribute of the tag \"{known}\" at byte offset {at}"
        )
    })?;
    let value = value.trim().trim_matches('"');
    match (*known, name.trim()) {
        ("a", "href") => Ok((known, decoded(value))),
        ("code", "class") => Ok((known, value.strip_prefix("language-").unwrap_or_default().to_owned())),
        (known, _) => Ok((known, String::new())),
    }
}

fn decoded(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let (c, length) = entity(rest).unwrap_or((c, c.len_utf8()));
        out.push(c);
        rest = &rest[length..];
    }
    out
}

/// Only four names are known, and numbers; anything else stays as it is written. The semicolon may be missing.
fn entity(text: &str) -> Option<(char, usize)> {
    let body = text.strip_prefix('&')?;
    let (c, length) = match body.strip_prefix('#') {
        Some(number) => {
            let (digits, radix) = match number.strip_prefix('x') {
                Some(hex) => (hex, 16),
                None => (number, 10),
            };
            let count = digits.chars().take_while(|c| c.is_digit(radix)).count();
            let code = u32::from_str_radix(&digits[..count], radix).ok()?;
            let length = body.len() - digits.len() + count;
            (char::from_u32(code).filter(|_| code > 0 && code < 0x10_ffff && length < 9)?, length)
        }
        None => {
            let length = body.chars().take_while(char::is_ascii_alphabetic).count();
            let c = match &body[..length] {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                _ => return None,
            };
            (c, length)
        }
    };
    let semicolon = usize::from(body[length..].starts_with(';'));
    Some((c, 1 + length + semicolon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_taken_out_and_entities_are_read() {
        let marked = parse(
            "<b>a &lt;b&gt; &amp;&quot;</b>&#65;&#x42; &nbsp; & &lt <pre><code class=\"language-rs\">x</code></pre>",
        );
        let marked = marked.unwrap();
        assert_eq!(marked.plain(), "a <b> &\"AB &nbsp; & < x");
        let found: Vec<_> = marked.entities.iter().map(|entity| (entity.kind, marked.of(entity))).collect();
        assert_eq!(found, [("b", "a <b> &\"".to_owned()), ("pre", "x".to_owned())]);
        assert_eq!(marked.entities[1].argument, "rs");
    }

    #[test]
    fn what_telegram_refuses_is_refused() {
        for wrong in [
            "<x>y</x>",
            "a < b",
            "<b>a",
            "<b>a</i>",
            "a</b>",
            "<b><i>x</b></i>",
            "<span>x</span>",
            "<br/>",
            "<b><code>x</code></b>",
            "<pre><i>x</i></pre>",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
