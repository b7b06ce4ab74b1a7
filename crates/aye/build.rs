//! Builds the page of `web/` and makes it part of the program. Runs again only when the page's sources change.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const SOURCES: [&str; 7] =
    ["src", "index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json", ".npmrc"];
const WITHOUT: &str = "or build without the page: --no-default-features";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_WEB").is_none() {
        return;
    }
    if let Err(problem) = build() {
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("cargo did not set {name}"));
    let web = variable("CARGO_MANIFEST_DIR")?.join("../../web");
    let out = variable("OUT_DIR")?;
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(source).display());
    }
    install(&web)?;
    let page = out.join("page");
    run(Command::new("node")
        .arg("node_modules/vite/bin/vite.js")
        .args(["build", "--emptyOutDir", "--logLevel", "warn", "--outDir"])
        .arg(&page)
        .current_dir(&web))?;
    let mut files = Vec::new();
    collect(&page, &mut files).map_err(|error| format!("cannot read the built page: {error}"))?;
    files.sort();
    fs::write(out.join("page.rs"), table(&page, &files)).map_err(|error| error.to_string())
}

/// `npm ci` takes seconds, so it runs only when what is installed is not what is locked.
fn install(web: &Path) -> Result<(), String> {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let (wanted, stamp) = (read(&web.join("package-lock.json")), web.join("node_modules/.installed"));
    if !wanted.is_empty() && read(&stamp) == wanted {
        return Ok(());
    }
    run(Command::new("npm").args(["ci", "--loglevel=error"]).current_dir(web))?;
    fs::write(stamp, wanted).map_err(|error| format!("cannot note what is installed: {error}"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().replace('\n', " | ");
            Err(format!("the page could not be built, {program} says: {said}; fix that, {WITHOUT}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "{program} is missing, which builds the page: install Node.js 20.19 or newer, {WITHOUT}"
        )),
        Err(error) => Err(format!("{program} could not be started ({error}); fix that, {WITHOUT}")),
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "gz") {
            files.push(path);
        }
    }
    Ok(())
}

/// The files as Rust: their paths on the hub, and their bytes as they are and compressed.
fn table(page: &Path, files: &[PathBuf]) -> String {
    let entry = |file: &PathBuf| {
        let name = file.strip_prefix(page).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let (plain, gzip) = (file.display().to_string(), format!("{}.gz", file.display()));
        format!(
            "    File {{ name: {name:?}, plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?}) }},\n"
        )
    };
    let entries: String = files.iter().map(entry).collect();
    format!("pub static FILES: &[File] = &[\n{entries}];\n")
}
