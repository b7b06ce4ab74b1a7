use super::{Arguments, Done};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use std::io::Write;
use std::process::ExitCode;

/// Print shell completions.
#[derive(Args)]
#[command(after_help = "\
Install them once:
  bash        aye completions bash > ~/.local/share/bash-completion/completions/aye
  zsh         aye completions zsh > \"${fpath[1]}/_aye\"      (or any folder in fpath)
  fish        aye completions fish > ~/.config/fish/completions/aye.fish
  elvish      aye completions elvish >> ~/.config/elvish/rc.elv
  powershell  aye completions powershell >> $PROFILE

For the current shell only: source <(aye completions bash)")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Done {
        // Into memory first: written straight to a closed pipe, the generator would panic.
        let mut script = Vec::new();
        generate(self.shell, &mut Arguments::command(), "aye", &mut script);
        std::io::stdout().lock().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_gets_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            generate(*shell, &mut Arguments::command(), "aye", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in ["up", "answer", "completions"] {
                assert!(script.contains(command), "{shell} does not know {command}");
            }
        }
    }
}
