use super::{DECLINED, Done, ERROR, INTERRUPTED, NOBODY_IN_TIME, say_json};
use crate::agents::script::{Extra, Script};
use crate::client::Withdrawn;
use crate::home::Home;
use crate::protocol::{Resolution, Timeout};
use crate::shutdown::Signals;
use crate::surfaces::terminal::answer_lines;
use aye_core::visible::visible;
use aye_core::{AskState, Body, Decision, Offer, Question, QuestionDraft, Questions, Receipt};
use clap::Args;
use jiff::SignedDuration;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Ask a person from any script, and wait for the answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye ask \"Deploy to production?\" --option yes --option \"no: leave it as it is\"
  aye ask \"Which checks?\" --option lint --option test --multi
  aye ask \"What should the release be called?\" --timeout 10m
  answer=$(aye ask \"Go on?\" --option yes --option no) && [ \"$answer\" = yes ] && ./deploy

Prints the answer, one line per chosen option.
Exit codes: 0 answered, 2 declined, 3 nobody in time, 1 error, 130 interrupted.
The hub can be restarted while this waits.")]
pub struct Ask {
    /// What to ask
    question: String,
    /// An option to choose, with its explanation after a colon; repeatable
    #[arg(long = "option", value_name = "LABEL[: DESCRIPTION]")]
    options: Vec<String>,
    /// Allow several options
    #[arg(long)]
    multi: bool,
    /// Allow an answer in own words; always allowed if there are no options
    #[arg(long)]
    text: bool,
    /// The answer is a secret: it is typed unseen, deleted once it is here, and never sent to Telegram
    #[arg(long)]
    secret: bool,
    /// How long to wait: 300s, 5m, 2h (default: as config.toml says, else forever)
    #[arg(long, value_name = "DURATION")]
    timeout: Option<SignedDuration>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Ask {
    pub async fn run(self, home: &Home) -> Done {
        let mut signals = Signals::listen()?;
        let body = self.body().map_err(anyhow::Error::msg)?;
        let timeout = self.timeout.map(Timeout::try_from).transpose();
        let timeout = timeout.map_err(|why| anyhow::anyhow!("the timeout {why}"))?;
        let script = tokio::select! {
            script = Script::announce(home, "script", &self.question) => script?,
            why = signals.wait() => return Ok(interrupted(why)),
        };
        let ask = tokio::select! {
            ask = script.raise(&body, Extra { timeout, ..Extra::default() }) => ask,
            why = signals.wait() => {
                // Should the ask be there after all, it goes with its agent.
                script.end().await;
                return Ok(interrupted(why));
            }
        };
        let ask = match ask {
            Ok(ask) => ask,
            Err(error) => {
                script.end().await;
                return Err(error);
            }
        };
        let resolution = tokio::select! {
            resolution = script.resolution(&ask) => resolution?,
            why = signals.wait() => {
                // An answer that came in this very moment stays recorded, as undelivered.
                match script.withdraw(&ask.id).await {
                    Ok(Withdrawn::TakenBack) => anstream::eprintln!("aye: {why}: the question was taken back"),
                    Ok(Withdrawn::TooLate) => anstream::eprintln!("aye: {why}, but the question had already been answered"),
                    Err(error) => anstream::eprintln!("aye: {why}, but the question could not be taken back: {}", visible(&error.to_string())),
                }
                script.end().await;
                return Ok(interrupted(why));
            }
        };
        let code = self.tell(&resolution)?;
        if resolution.state != AskState::Withdrawn {
            let told = script.receipt(&ask.id, Receipt::Delivered, "written to the script's standard output");
            // The answer is out: nothing that happens from here on makes it a failure.
            tokio::select! {
                told = told => if let Err(error) = told {
                    anstream::eprintln!("aye: the hub took no receipt: {}", visible(&error.to_string()));
                },
                _ = signals.wait() => {}
            }
        }
        script.end().await;
        Ok(ExitCode::from(code))
    }

    fn body(&self) -> Result<Body, String> {
        let offer = |text: &String| {
            let (label, description) = text.split_once(": ").unwrap_or((text, ""));
            Offer {
                label: label.trim().to_owned(),
                description: description.trim().to_owned(),
                preview: None,
                allows: false,
            }
        };
        let question = Question::try_from(QuestionDraft {
            question: self.question.clone(),
            header: String::new(),
            options: self.options.iter().map(offer).collect(),
            multi_select: self.multi,
            free_text: self.text || self.options.is_empty(),
            secret: self.secret,
        })?;
        Ok(Body::Question(Questions::new(vec![question])?))
    }

    /// Prints the answer and says how to exit. The agent behind this script must never take silence for an answer.
    fn tell(&self, resolution: &Resolution) -> anyhow::Result<u8> {
        let outcome = &resolution.outcome;
        let code = match outcome.decision {
            Decision::Answered => 0,
            Decision::Declined => DECLINED,
            Decision::Expired => NOBODY_IN_TIME,
            Decision::Allow | Decision::Deny | Decision::Outline | Decision::Withdrawn => ERROR,
        };
        if self.json {
            say_json(&json!(outcome.answer))?;
        } else if let (0, Some(answer)) = (code, &outcome.answer) {
            let mut out = std::io::stdout().lock();
            for line in answer_lines(answer) {
                writeln!(out, "{line}")?;
            }
            out.flush()?;
        } else {
            let message = outcome.message.as_deref().unwrap_or("the person declined to answer");
            anstream::eprintln!("aye: {}", visible(message));
        }
        Ok(code)
    }
}

fn interrupted(why: &str) -> ExitCode {
    ExitCode::from(if why == "interrupted" { INTERRUPTED } else { ERROR })
}
