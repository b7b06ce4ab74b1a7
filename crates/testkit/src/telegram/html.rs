//! Markup as Telegram reads it, and what it refuses.

const TAGS: [&str; 15] = [
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
    "span",
    "a",
    "code",
    "pre",
    "blockquote",
];

/// The text without its markup, or what is wrong with it.
pub fn parse(html: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        match c {
            '<' => {
                let end = rest.find('>').ok_or_else(|| {
                    format!("Unclosed start tag at byte offset {}", html.len() - rest.len())
                })?;
                let tag = &rest[1..end];
                rest = &rest[end + 1..];
                match tag.strip_prefix('/') {
                    Some(name) => {
                        let expected = open.pop().ok_or_else(|| format!("Unexpected end tag </{name}>"))?;
                        if name.trim() != expected {
                            return Err(format!(
                                "Unmatched end tag, expected \"</{expected}>\", found \"</{name}>\""
                            ));
                        }
                    }
                    None => {
                        let name = tag.split_whitespace().next().unwrap_or_default();
                        let known = TAGS.iter().find(|known| **known == name.to_ascii_lowercase());
                        let known = known.ok_or_else(|| format!("Unsupported start tag \"{name}\""))?;
                        if open.iter().any(|open| ["code", "pre"].contains(open)) && *known != "code" {
                            return Err(format!("<{known}> inside of <{}>", open.join("><")));
                        }
                        open.push(known);
                    }
                }
            }
            '&' => {
                let (c, length) = entity(rest).unwrap_or(('&', 1));
                text.push(c);
                rest = &rest[length..];
            }
            c => {
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    match open.pop() {
        Some(open) => Err(format!("Can't find end tag corresponding to start tag \"{open}\"")),
        None => Ok(text),
    }
}

/// Only four names are known, and numbers; anything else stays as it is written.
fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.find(';').filter(|end| *end <= 10)?;
    let c = match &text[1..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((c, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_taken_out_and_entities_are_read() {
        assert_eq!(
            parse("<b>a &lt;b&gt; &amp;&quot;</b>&#65;&#x42; &nbsp; & <pre><code>x</code></pre>").unwrap(),
            "a <b> &\"AB &nbsp; & x"
        );
    }

    #[test]
    fn what_telegram_refuses_is_refused() {
        for wrong in
            ["<x>y</x>", "a < b", "<b>a", "<b>a</i>", "a</b>", "<b><i>x</b></i>", "<pre><b>x</b></pre>"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
