use std::process::ExitCode;

fn main() -> ExitCode {
    aye::cli::run()
}
