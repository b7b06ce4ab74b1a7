//! Values on their way to PostgreSQL and back, by the types of its columns.

use super::super::StoreError;
use super::super::sql::Params;
use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A parameter, which becomes what the statement takes in its place.
#[derive(Debug)]
pub struct Param<'a>(ToSqlOutput<'a>);

impl<'a> Param<'a> {
    pub fn all(params: Params<'a>) -> Result<Vec<Self>, StoreError> {
        let of = |value: &'a dyn rusqlite::ToSql| Ok(Self(value.to_sql()?));
        match params {
            Params::InOrder(values) => values.iter().map(|value| of(*value)).collect(),
            Params::Named(values) => values.iter().map(|(_, value)| of(*value)).collect(),
        }
    }

    fn value(&self) -> ValueRef<'_> {
        match &self.0 {
            ToSqlOutput::Owned(value) => ValueRef::from(value),
            ToSqlOutput::Borrowed(value) => *value,
            _ => ValueRef::Null,
        }
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.value() {
            ValueRef::Null => Ok(IsNull::Yes),
            ValueRef::Integer(number) => match *kind {
                Type::INT4 => i32::try_from(number)?.to_sql(kind, out),
                Type::BOOL => (number != 0).to_sql(kind, out),
                _ => number.to_sql(kind, out),
            },
            ValueRef::Real(number) => number.to_sql(kind, out),
            ValueRef::Text(text) if text.contains(&0) => {
                Err("PostgreSQL keeps no text with a NUL in it".into())
            }
            ValueRef::Text(text) => std::str::from_utf8(text)?.to_sql(kind, out),
            ValueRef::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// What is in this column.
pub fn column(row: &tokio_postgres::Row, i: usize) -> Result<ValueRef<'_>, StoreError> {
    let Some(column) = row.columns().get(i) else {
        return Err(StoreError::Unreadable(format!("there is no column {i}")));
    };
    let value = match *column.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(i)?.map(ValueRef::Integer),
        Type::INT4 => row.try_get::<_, Option<i32>>(i)?.map(|number| ValueRef::Integer(number.into())),
        Type::BOOL => row.try_get::<_, Option<bool>>(i)?.map(|yes| ValueRef::Integer(yes.into())),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(i)?.map(ValueRef::Real),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(i)?.map(ValueRef::Blob),
        _ => row.try_get::<_, Option<&str>>(i)?.map(|text| ValueRef::Text(text.as_bytes())),
    };
    Ok(value.unwrap_or(ValueRef::Null))
}

/// The statement as PostgreSQL writes it: parameters are `$1`, `$2`, …
pub fn translated(sql: &str, params: Params) -> String {
    let place = |name: &str| match params {
        Params::Named(values) => values.iter().position(|(known, _)| known[1..] == *name).map(|i| i + 1),
        Params::InOrder(_) => None,
    };
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['?', ':', '\'']) {
        text += &rest[..at];
        let after = &rest[at + 1..];
        let word = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let taken = match (&rest[at..=at], place(&after[..word])) {
            ("?", _) => {
                text += &format!("${}", &after[..word]);
                word
            }
            (":", Some(place)) => {
                text += &format!("${place}");
                word
            }
            ("'", _) => {
                let end = after.find('\'').map_or(after.len(), |end| end + 1);
                text += &rest[at..at + 1 + end];
                end
            }
            (other, _) => {
                text += other;
                0
            }
        };
        rest = &after[taken..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::params;

    #[test]
    fn parameters_are_numbered_and_what_stands_in_quotes_is_left_alone() {
        let check = |sql: &str, expected: &str| assert_eq!(translated(sql, params![].into()), expected);
        check(
            "SELECT a FROM t WHERE b = ?1 AND c = '?2:x' AND d::text = ?12",
            "SELECT a FROM t WHERE b = $1 AND c = '?2:x' AND d::text = $12",
        );
        let named: &[(&str, &dyn rusqlite::ToSql)] = &[(":who", &1), (":at", &2)];
        assert_eq!(
            translated("a < :at AND (b LIKE :who ESCAPE '\\' OR c = :at)", named.into()),
            "a < $2 AND (b LIKE $1 ESCAPE '\\' OR c = $2)"
        );
    }
}
