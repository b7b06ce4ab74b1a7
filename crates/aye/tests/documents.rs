//! What the documents name must exist: tests, files, and the functions on the journey of an ask. The other way round,
//! names like `a_b` that a text of the program uses must be ones that the documents explain.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a path in a document may begin.
const BASES: [&str; 3] = ["", "crates/aye/src", "docs"];
const FOLDERS: [&str; 16] = [
    "agents",
    "api",
    "bench",
    "cli",
    "client",
    "crates",
    "docs",
    "e2e",
    "hub",
    "protocol",
    "scripts",
    "store",
    "surfaces",
    "web",
    "webauthn",
    "decisions",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut open = vec![root().join(folder)];
    let mut found = vec![];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let skipped = path.ends_with("node_modules") || path.ends_with("target");
            let entries = fs::read_dir(&path).unwrap().filter(|_| !skipped);
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn documents() -> Vec<(PathBuf, String)> {
    let mut pages = files("docs", "md");
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    pages.into_iter().map(|page| (page.clone(), fs::read_to_string(page).unwrap())).collect()
}

/// What is in backticks, outside of blocks; a span may go over the end of a line.
fn spans(text: &str) -> Vec<String> {
    let blocks = text.split("```").step_by(2);
    let spans = blocks.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Four words or more: no variable and no field is called like that.
fn is_rust_test(span: &str) -> bool {
    let plain = span.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    plain && span.matches('_').count() >= 3 && !span.starts_with("aye_")
}

/// A sentence: tests in the browser are called by one.
fn is_browser_test(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || matches!(c, ' ' | ',' | '\'');
    span.split(' ').count() >= 6 && span.chars().all(plain)
}

fn is_file(span: &str) -> bool {
    let begins = span.split('/').next().is_some_and(|first| FOLDERS.contains(&first));
    let plain = span.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
    plain && span.contains('/') && begins
}

#[test]
fn tests_that_a_document_names_exist() {
    let sources = ["crates", "e2e", "bench"].into_iter().flat_map(|folder| files(folder, "rs"));
    let rust: String = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
    let names: BTreeSet<&str> =
        rust.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).collect();
    let browser: String =
        files("e2e/web", "ts").into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for (page, text) in documents() {
        for span in spans(&text) {
            let known = match () {
                () if is_rust_test(&span) => names.contains(span.as_str()),
                () if is_browser_test(&span) => browser.contains(&span),
                () => true,
            };
            assert!(known, "{} names the test {span:?}, which is not there", page.display());
        }
    }
}

#[test]
fn files_that_a_document_names_exist() {
    for (page, text) in documents() {
        for span in spans(&text).iter().filter(|span| is_file(span)) {
            let exists = BASES.iter().any(|base| root().join(base).join(span).exists());
            assert!(exists, "{} names {span}, which is not there", page.display());
        }
    }
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    for (page, text) in documents() {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(file.exists(), "{} links to {target}, which is not there", page.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(headings.any(|found| found == heading), "{} links to {target}", page.display());
            }
        }
    }
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn the_journey_of_an_ask_names_functions_that_exist() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let is_hop = |line: &&str| {
        line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let hops: Vec<&str> = text.lines().filter(is_hop).collect();
    assert!(hops.len() > 15, "the journey was not found");
    for hop in hops {
        let spans: Vec<&str> = hop.split('`').skip(1).step_by(2).collect();
        let [file, function, ..] = spans.as_slice() else { panic!("{hop} names no function") };
        let source = fs::read_to_string(root().join("crates/aye/src").join(file)).unwrap();
        assert!(source.contains(&format!("fn {function}")), "{file} has no function {function}");
        let handed_on = hop.split('|').nth(4).unwrap();
        for name in handed_on.split('`').skip(1).step_by(2) {
            let mut words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(
                words.any(|word| word == name),
                "{file} knows no {name}, which {function} is said to hand on"
            );
        }
    }
}

#[test]
fn the_architecture_page_takes_ten_minutes_to_read() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let words = text.replace('|', " ").split_whitespace().count();
    assert!(words < 2400, "the page has {words} words");
    let (_, glossary) = text.split_once("## Glossary").unwrap();
    let explained = glossary.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert!(explained <= 15, "the glossary has {explained} words");
}

#[test]
fn every_invariant_names_what_checks_it() {
    let text = fs::read_to_string(root().join("docs/invariants.md")).unwrap();
    let is_number =
        |line: &str| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let mut invariants: Vec<String> = Vec::new();
    for line in text.lines() {
        if is_number(line) {
            invariants.push(line.to_owned());
        } else if let Some(last) = invariants.last_mut().filter(|_| line.starts_with("   ")) {
            last.push_str(&format!(" {}", line.trim()));
        }
    }
    assert!(invariants.len() > 40, "the invariants were not found");
    for invariant in invariants {
        assert!(spans(&invariant).iter().any(|span| is_rust_test(span) || is_file(span)), "{invariant}");
    }
}

/// The string literals of a file, roughly: enough for texts that people read, which are in no raw strings.
fn literals(source: &str) -> Vec<String> {
    let code =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    let code = code.replace("'\"'", "").replace("\\\"", "");
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Renaming an identifier by search and replace also changes sentences in which it is a common word.
#[test]
fn no_text_that_people_read_has_the_name_of_a_function_in_it() {
    let documents: String = documents().into_iter().map(|(_, text)| text).collect();
    let is_name = |word: &&str| {
        let part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
        word.contains('_') && word.split('_').all(part)
    };
    let shown = ["crates/aye/src/surfaces", "crates/aye/src/cli"].map(|folder| files(folder, "rs")).concat();
    for path in shown.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "tests")) {
        let source = fs::read_to_string(path).unwrap();
        for text in literals(source.split("#[cfg(test)]").next().unwrap()) {
            let words = text.split_whitespace().map(|word| word.trim_matches([',', '.', ':', ';', '(', ')']));
            for word in words.filter(|_| text.trim().contains(' ')).filter(is_name) {
                assert!(documents.contains(word), "{}: {word:?} in {text:?}", path.display());
            }
        }
    }
}
