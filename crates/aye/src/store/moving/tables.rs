//! What is copied: every table of an SQLite home, those first that others refer to.

/// A table and the columns of its key, by which its rows are put in order.
pub struct Table {
    pub name: &'static str,
    /// What its rows are selected from.
    pub from: &'static str,
    pub key: &'static str,
}

const fn table(name: &'static str, key: &'static str) -> Table {
    Table { name, from: name, key }
}

pub const TABLES: [Table; 15] = [
    table("agents", "id"),
    table("processes", "pid, started, agent"),
    table("asks", "n"),
    table("audit", "seq"),
    table("outbox", "seq"),
    table("conversations", "seq"),
    table("reporters", "agent, reporter"),
    table("commands", "n"),
    table("grants", "id"),
    table("outlines", "agent"),
    table("tokens", "id"),
    table("passkeys", "id"),
    table("memory", "surface, kind, key"),
    table("secrets", "ask"),
    table("standing", "one"),
];

/// The database itself counts the asks while they are copied.
pub const COUNTS: Table = Table {
    name: "ask_counts",
    from: "(SELECT * FROM ask_counts WHERE asks <> 0) AS counts",
    key: "kind, state, receipt",
};

/// What the numbers of new rows go on from.
pub const NUMBERS: [(&str, &str); 3] = [
    ("asks", "SELECT coalesce(max(n), 0) FROM asks"),
    ("outbox", "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox'"),
    ("commands", "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'commands'"),
];

#[cfg(test)]
mod tests {
    use super::super::super::sqlite::MIGRATIONS;
    use super::*;

    #[test]
    fn no_table_is_left_behind() {
        let made = rusqlite::Connection::open_in_memory().unwrap();
        MIGRATIONS.iter().for_each(|migration| made.execute_batch(migration).unwrap());
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('ask_counts', 'sqlite_sequence')";
        let mut statement = made.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        let mut there: Vec<String> = names.collect::<Result<_, _>>().unwrap();
        let mut copied: Vec<_> = TABLES.iter().map(|table| table.name.to_owned()).collect();
        there.sort();
        copied.sort();
        assert_eq!(there, copied);
        let numbered: Vec<_> =
            NUMBERS.iter().map(|(_, sql)| made.query_row(sql, [], |row| row.get(0))).collect();
        assert!(numbered.into_iter().all(|number| number == Ok(0i64)));
    }
}
