use serde::de::DeserializeOwned;
use serde_json::Value;

/// An invalid input: the field and what is wrong with it, so that a surface can show the message beside that field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    pub field: String,
    pub problem: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The same error with `field` prefixed by the name of its parent.
    pub fn under(self, parent: &str) -> Self {
        Self { field: join(parent, &self.field), problem: self.problem }
    }
}

fn join(parent: &str, field: &str) -> String {
    match (parent.is_empty(), field.is_empty()) {
        (true, _) => field.to_owned(),
        (_, true) => parent.to_owned(),
        _ if field.starts_with('[') => format!("{parent}{field}"),
        _ => format!("{parent}.{field}"),
    }
}

/// Decodes strictly; the error names the field that does not fit. Little is wrong, so where it is is looked for only then.
pub fn decode<T: DeserializeOwned>(value: Value) -> Result<T, Invalid> {
    T::deserialize(&value).or_else(|_| decode_step_by_step(value))
}

fn decode_step_by_step<T: DeserializeOwned>(value: Value) -> Result<T, Invalid> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => String::new(),
            path => path,
        };
        let problem = error.into_inner().to_string();
        Invalid::new(join(&path, named_field(&problem).unwrap_or_default()), problem)
    })
}

/// serde reports a missing field at the path of its parent; the name appears only in the message.
fn named_field(problem: &str) -> Option<&str> {
    problem.strip_prefix("missing field `")?.split('`').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        size: u32,
    }

    #[test]
    fn the_field_that_does_not_fit_is_named() {
        let field = |value| decode::<Outer>(value).unwrap_err().field;
        assert_eq!(field(json!({"inner": [{"size": "big"}]})), "inner[0].size");
        assert_eq!(field(json!({"inner": [{}]})), "inner[0].size");
        assert_eq!(field(json!({"inner": [{"size": 1, "colour": 2}]})), "inner[0].colour");
        assert_eq!(field(json!({})), "inner");
        assert_eq!(field(json!([])), "");
        assert!(decode::<Outer>(json!({"inner": [{"size": 1}]})).is_ok());
    }
}
