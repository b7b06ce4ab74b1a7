//! What an agent asks for with a form (`elicitation/create`), as questions, and the answers as what the form takes.
//! A form that cannot be shown whole, or whose answers could not be checked, is declined.

use aye_core::{Choice, Offer, Question, QuestionDraft, Questions};
use serde_json::{Map, Value, json};

/// What it takes to answer the questions of a form.
#[derive(Debug, PartialEq)]
pub enum Form {
    Fields(Vec<Field>),
    /// An address that the person is to open, in their own browser.
    Address,
}

#[derive(Debug, PartialEq)]
pub struct Field {
    name: String,
    title: String,
    required: bool,
    shape: Shape,
}

#[derive(Debug, PartialEq)]
enum Shape {
    One(Vec<Pick>),
    Many { picks: Vec<Pick>, least: usize, most: usize },
    Text { least: usize, most: usize, format: Option<Format> },
    Number { whole: bool, least: f64, most: f64 },
}

#[derive(Debug, Clone, PartialEq)]
struct Pick {
    value: Value,
    label: String,
    description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Email,
    Uri,
    Date,
    DateTime,
}

/// What the person picks once they have opened an address.
const OPENED: &str = "I have opened it";

impl Form {
    /// The form and its questions; or why it is declined.
    pub fn read(params: &Value) -> Result<(Self, Questions), String> {
        let message = params["message"].as_str().unwrap_or_default();
        match params["mode"].as_str() {
            Some("url") => address(message, params["url"].as_str().unwrap_or_default()),
            None | Some("form") => fields(message, &params["requestedSchema"]),
            Some(other) => Err(format!("it asks in a way that aye does not know: {other}")),
        }
    }

    /// What the agent is told for these answers; or why they do not fit the form.
    pub fn accept(&self, answers: &[Choice]) -> Result<Value, String> {
        let Self::Fields(fields) = self else {
            return Ok(json!({ "action": "accept" }));
        };
        let mut content = Map::new();
        for (field, choice) in fields.iter().zip(answers) {
            match (choice, field.required) {
                (Choice::Given { selected, text, .. }, _) => {
                    let text = text.as_ref().map(|text| text.as_str());
                    let value = field.shape.value(selected, text);
                    let value = value.map_err(|why| format!("{:?} {why}", field.title))?;
                    content.insert(field.name.clone(), value);
                }
                (Choice::Skipped { .. } | Choice::Secret { .. }, true) => {
                    return Err(format!("{:?} must be answered", field.title));
                }
                (Choice::Skipped { .. } | Choice::Secret { .. }, false) => {}
            }
        }
        Ok(json!({ "action": "accept", "content": content }))
    }
}

pub fn declined() -> Value {
    json!({ "action": "decline" })
}

pub fn cancelled() -> Value {
    json!({ "action": "cancel" })
}

fn address(message: &str, url: &str) -> Result<(Form, Questions), String> {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err("it wants an address to be opened that is not one of the web".into());
    }
    let question = format!(
        "{message}\n\nThe agent wants you to open this address. aye does not open it: do so yourself, if you trust it.\n\n{url}"
    );
    let option = Offer { label: OPENED.to_owned(), description: String::new(), preview: None, allows: false };
    let draft = QuestionDraft { question, options: vec![option], ..QuestionDraft::default() };
    Ok((Form::Address, Questions::new(vec![Question::try_from(draft)?])?))
}

fn fields(message: &str, schema: &Value) -> Result<(Form, Questions), String> {
    let properties = schema["properties"].as_object().ok_or("its form has no fields")?;
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    if required.iter().any(|name| name.as_str().is_none_or(|name| !properties.contains_key(name))) {
        return Err("its form requires a field that it does not have".into());
    }
    let mut lines = message.lines();
    // Kimi numbers its fields and puts their questions into the message, a line each.
    let by_line = lines.clone().count() == properties.len()
        && properties.keys().enumerate().all(|(n, name)| *name == format!("q{n}"));
    let (mut read, mut questions) = (Vec::new(), Vec::new());
    for (n, (name, property)) in properties.iter().enumerate() {
        let shape = Shape::read(property).map_err(|why| format!("its field {name} {why}"))?;
        let title = property["title"].as_str().unwrap_or(name).to_owned();
        let required = required.iter().any(|required| required == name.as_str());
        let words = match property["description"].as_str() {
            _ if by_line => lines.next().unwrap_or_default().to_owned(),
            described if properties.len() == 1 => join(&[message, described.unwrap_or_default()]),
            described if n == 0 => join(&[message, described.unwrap_or(&title)]),
            described => described.unwrap_or(&title).to_owned(),
        };
        let hint = [shape.hint(), (!required).then(|| "may be skipped".to_owned())];
        let hint = hint.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let hint = if hint.is_empty() { hint } else { format!("({hint})") };
        questions.push(Question::try_from(QuestionDraft {
            question: [words, hint]
                .iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
            header: title.clone(),
            options: shape.picks().iter().map(Pick::offer).collect(),
            multi_select: matches!(shape, Shape::Many { .. }),
            free_text: matches!(shape, Shape::Text { .. } | Shape::Number { .. }),
            secret: false,
        })?);
        read.push(Field { name: name.clone(), title, required, shape });
    }
    Ok((Form::Fields(read), Questions::new(questions)?))
}

fn join(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

impl Shape {
    fn read(property: &Value) -> Result<Self, String> {
        let size = |field: &str, other: usize| match &property[field] {
            Value::Null => Ok(other),
            size => {
                size.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or("has a limit that is none")
            }
        };
        let limit = |field: &str, other: f64| match &property[field] {
            Value::Null => Ok(other),
            limit => limit.as_f64().ok_or("has a limit that is none"),
        };
        let only = |fields: &[&str]| {
            let known = ["type", "title", "description", "default"];
            let others = property.as_object().into_iter().flat_map(Map::keys);
            let mut others =
                others.filter(|name| !known.contains(&name.as_str()) && !fields.contains(&name.as_str()));
            others.next().map_or(Ok(()), |name| Err(format!("has a limit that aye cannot check: {name}")))
        };
        match property["type"].as_str() {
            Some("string") | None if property["oneOf"].is_array() || property["enum"].is_array() => {
                only(&["oneOf", "enum", "enumNames"])?;
                Ok(Self::One(picks(property, "oneOf")?))
            }
            Some("string") => {
                only(&["minLength", "maxLength", "format"])?;
                let format = match property["format"].as_str() {
                    None => None,
                    Some("email") => Some(Format::Email),
                    Some("uri") => Some(Format::Uri),
                    Some("date") => Some(Format::Date),
                    Some("date-time") => Some(Format::DateTime),
                    Some(other) => return Err(format!("has a form that aye cannot check: {other}")),
                };
                Ok(Self::Text { least: size("minLength", 0)?, most: size("maxLength", usize::MAX)?, format })
            }
            Some(number @ ("number" | "integer")) => {
                only(&["minimum", "maximum"])?;
                let (least, most) = (limit("minimum", f64::NEG_INFINITY)?, limit("maximum", f64::INFINITY)?);
                Ok(Self::Number { whole: number == "integer", least, most })
            }
            Some("boolean") => {
                only(&[])?;
                let pick = |value: bool, label: &str| Pick {
                    value: value.into(),
                    label: label.to_owned(),
                    description: String::new(),
                };
                Ok(Self::One(vec![pick(true, "Yes"), pick(false, "No")]))
            }
            Some("array") => {
                only(&["items", "minItems", "maxItems", "uniqueItems"])?;
                let picks = picks(&property["items"], "anyOf")?;
                Ok(Self::Many { least: size("minItems", 0)?, most: size("maxItems", picks.len())?, picks })
            }
            other => Err(format!("is of a kind that aye cannot ask for: {}", other.unwrap_or("none"))),
        }
    }

    fn picks(&self) -> &[Pick] {
        match self {
            Self::One(picks) | Self::Many { picks, .. } => picks,
            Self::Text { .. } | Self::Number { .. } => &[],
        }
    }

    /// What an answer must be like, in words.
    fn hint(&self) -> Option<String> {
        match self {
            Self::One(_) => None,
            Self::Many { least, most, picks } => match (*least, *most) {
                (0 | 1, most) if most >= picks.len() => None,
                (least, most) if most >= picks.len() => Some(format!("at least {least}")),
                (least, most) => Some(format!("{least} to {most} of them")),
            },
            Self::Text { least, most, format } => {
                let format = format.map(|format| match format {
                    Format::Email => "an e-mail address",
                    Format::Uri => "an address with its scheme",
                    Format::Date => "a date as 2026-01-31",
                    Format::DateTime => "a time as 2026-01-31T09:30:00Z",
                });
                let length = match (*least, *most) {
                    (0 | 1, usize::MAX) => None,
                    (least, usize::MAX) => Some(format!("at least {least} characters")),
                    (0 | 1, most) => Some(format!("at most {most} characters")),
                    (least, most) => Some(format!("{least} to {most} characters")),
                };
                let parts: Vec<_> = format.map(str::to_owned).into_iter().chain(length).collect();
                (!parts.is_empty()).then(|| parts.join(", "))
            }
            Self::Number { whole, least, most } => {
                let number = if *whole { "a whole number" } else { "a number" };
                let limits = [(least, "not below"), (most, "not above")];
                let limits = limits.into_iter().filter(|(limit, _)| limit.is_finite());
                let limits = limits.map(|(limit, words)| format!("{words} {limit}"));
                Some(std::iter::once(number.to_owned()).chain(limits).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// What the form takes for this answer.
    fn value(&self, selected: &[String], text: Option<&str>) -> Result<Value, String> {
        let value_of = |label: &String| {
            let pick = self.picks().iter().find(|pick| pick.label == *label);
            pick.map(|pick| pick.value.clone()).ok_or_else(|| format!("has no option {label:?}"))
        };
        let text = text.unwrap_or_default();
        match self {
            Self::One(_) => selected.first().map_or_else(|| Err("was not answered".to_owned()), value_of),
            Self::Many { least, most, .. } => match (*least..=*most).contains(&selected.len()) {
                true => selected.iter().map(value_of).collect::<Result<Vec<_>, _>>().map(Value::from),
                false => Err(format!("takes {least} to {most} picks")),
            },
            Self::Text { least, most, format } => {
                let fits = (*least..=*most).contains(&text.chars().count());
                match fits && format.is_none_or(|format| format.fits(text)) {
                    true => Ok(text.into()),
                    false => Err(format!("must be {}", self.hint().unwrap_or_default())),
                }
            }
            Self::Number { whole, least, most } => {
                let number = serde_json::from_str::<serde_json::Number>(text.trim()).ok();
                let number = number.filter(|number| !*whole || number.is_i64() || number.is_u64());
                let in_range = |number: &serde_json::Number| {
                    number.as_f64().is_some_and(|value| (*least..=*most).contains(&value))
                };
                let wrong = || format!("must be {}", self.hint().unwrap_or_default());
                number.filter(in_range).map(Value::Number).ok_or_else(wrong)
            }
        }
    }
}

impl Format {
    fn fits(self, text: &str) -> bool {
        let no_blanks = !text.contains(char::is_whitespace);
        match self {
            Self::Email => {
                no_blanks && text.split_once('@').is_some_and(|(name, at)| !name.is_empty() && !at.is_empty())
            }
            Self::Uri => {
                no_blanks
                    && text
                        .split_once(':')
                        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
            }
            Self::Date => text.parse::<jiff::civil::Date>().is_ok() && text.len() == "2026-01-31".len(),
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
        }
    }
}

impl Pick {
    fn offer(&self) -> Offer {
        Offer {
            label: self.label.clone(),
            description: self.description.clone(),
            preview: None,
            allows: false,
        }
    }
}

/// What may be picked, whether each comes with a title or they stand in a list.
fn picks(schema: &Value, titled: &str) -> Result<Vec<Pick>, String> {
    let in_words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let described = schema[titled].as_array().or(schema["oneOf"].as_array());
    let picks: Vec<_> = match (described, schema["enum"].as_array()) {
        (Some(described), None) => {
            let pick = |pick: &Value| {
                let value = &pick["const"];
                (!value.is_null()).then(|| Pick {
                    value: value.clone(),
                    label: pick["title"].as_str().map_or_else(|| in_words(value), str::to_owned),
                    description: pick["description"].as_str().unwrap_or_default().to_owned(),
                })
            };
            described.iter().map(pick).collect::<Option<_>>().ok_or("has an option without a value")?
        }
        (None, Some(values)) => {
            let names = schema["enumNames"].as_array().filter(|names| names.len() == values.len());
            let pick = |(n, value): (usize, &Value)| Pick {
                value: value.clone(),
                label: names
                    .and_then(|names| names[n].as_str())
                    .map_or_else(|| in_words(value), str::to_owned),
                description: String::new(),
            };
            values.iter().enumerate().map(pick).collect()
        }
        (Some(_), Some(_)) | (None, None) => return Err("does not say what may be picked".into()),
    };
    match picks.is_empty() {
        true => Err("has nothing to pick".into()),
        false => Ok(picks),
    }
}

#[cfg(test)]
mod tests;
