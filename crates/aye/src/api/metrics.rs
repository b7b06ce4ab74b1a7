//! `GET /metrics`: the hub's figures in the text format of Prometheus.

use super::App;
use super::json::Failure;
use crate::hub::{Figures, Histogram, ServerFigures, StoredFigures};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;
use std::fmt::Display;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4";

pub async fn metrics(State(app): State<App>) -> Result<Response, Failure> {
    let figures = app.hub.figures().await?;
    let text = render(&figures, app.attempts.refused());
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}

fn render(figures: &Figures, wrong_tokens: u64) -> String {
    let mut page = MetricsText::default();
    page.family("aye_build_info", "gauge", "The version that runs.");
    page.sample("", &[("version", env!("CARGO_PKG_VERSION"))], 1);

    if let Some(ServerFigures { is_there, losses, behind }) = figures.server {
        page.family("aye_database_up", "gauge", "Whether the server of the database can be used.");
        page.sample("", &[], u8::from(is_there));
        page.family("aye_database_losses_total", "counter", "How often the database was lost.");
        page.sample("", &[], losses);
        page.family(
            "aye_commits_behind",
            "gauge",
            "Commits of other hubs, some seconds ago, that this one has not learned of.",
        );
        page.sample("", &[], behind);
    }
    if let Some(kept) = &figures.kept {
        render_asks(&mut page, kept);
    }

    page.family("aye_time_to_answer_seconds", "histogram", "From raise to a person's answer.");
    for (kind, histogram) in &figures.counted.time_to_answer {
        page.histogram(&[("kind", kind.as_str())], histogram);
    }

    page.family(
        "aye_surfaces_connected",
        "gauge",
        "Surfaces that follow what happens, Telegram among them, by role.",
    );
    let (operators, viewers) = figures.connected;
    page.sample("", &[("role", "operator")], operators);
    page.sample("", &[("role", "viewer")], viewers);

    if let Some(kept) = &figures.kept {
        page.family("aye_agents", "gauge", "Agents by state.");
        for (state, agents) in &kept.agents {
            page.sample("", &[("state", &state.to_string())], agents);
        }
    }
    page.family("aye_rule_decisions_total", "counter", "What rules decided of new asks.");
    for ((rule, verdict), times) in &figures.counted.decisions {
        page.sample("", &[("rule", rule), ("verdict", verdict)], times);
    }

    page.family("aye_unrecorded_allows_total", "counter", "What rules allowed and could not be recorded.");
    page.sample("", &[], figures.counted.unrecorded);

    page.family("aye_commit_group_size", "histogram", "Changes that shared one commit.");
    page.histogram(&[], &figures.counted.commit_groups);

    page.family("aye_wrong_tokens_total", "counter", "Requests refused for a wrong token.");
    page.sample("", &[], wrong_tokens);
    page.text
}

fn render_asks(page: &mut MetricsText, kept: &StoredFigures) {
    page.family("aye_asks", "gauge", "Asks by kind, state and receipt.");
    for kind in ["question", "permission", "plan"] {
        // Nothing open is a figure too: an alert must be able to tell it from a hub that is gone.
        if !kept.asks.iter().any(|count| count.kind == kind && count.state == "open") {
            page.sample("", &[("kind", kind), ("state", "open"), ("receipt", "none")], 0);
        }
    }
    for count in &kept.asks {
        let labels = [("kind", &*count.kind), ("state", &*count.state), ("receipt", &*count.receipt)];
        page.sample("", &labels, count.asks);
    }
}

#[derive(Default)]
struct MetricsText {
    text: String,
    family: &'static str,
}

impl MetricsText {
    /// Samples that follow belong to it.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.text += &format!("{}{suffix}{labels} {value}\n", self.family);
    }

    /// Buckets are cumulative in this format.
    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        let bounds = histogram.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut total = 0;
        for (bound, count) in bounds.zip(&histogram.counts) {
            total += count;
            self.sample("_bucket", &[labels, &[("le", &bound)]].concat(), total);
        }
        self.sample("_sum", labels, histogram.sum);
        self.sample("_count", labels, total);
    }
}

/// A rule's name is a person's text, and may hold anything.
fn escape(value: &str) -> Cow<'_, str> {
    match value.contains(['\\', '"', '\n']) {
        true => value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into(),
        false => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::AskCount;
    use crate::hub::Counted;
    use aye_core::{AgentState, Kind};

    #[test]
    fn the_page_is_what_prometheus_reads() {
        let histogram =
            |bounds: &'static [f64], counts: &[u64], sum| Histogram { bounds, counts: counts.into(), sum };
        let decided = ("rule 1 (\"a\\b\"\n} 1)".to_owned(), "deny");
        let count = |kind: &str, state: &str, receipt: &str, asks| AskCount {
            kind: kind.into(),
            state: state.into(),
            receipt: receipt.into(),
            asks,
        };
        let kept = StoredFigures {
            asks: vec![count("plan", "answered", "confirmed", 7), count("plan", "open", "none", 2)],
            agents: vec![(AgentState::Waiting, 1), (AgentState::Ended, 12)],
        };
        let mut figures = Figures {
            kept: Some(kept),
            server: None,
            connected: (1, 3),
            counted: Counted {
                time_to_answer: vec![(Kind::Plan, histogram(&[1.0, 60.0], &[1, 2, 1], 1000.5))],
                decisions: [(decided, 4)].into(),
                commit_groups: histogram(&[1.0, 2.0], &[5, 0, 0], 5.0),
                unrecorded: 2,
            },
        };
        let text = render(&figures, 9);
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(text, @r##"
        # HELP aye_build_info The version that runs.
        # TYPE aye_build_info gauge
        aye_build_info{version="VERSION"} 1
        # HELP aye_asks Asks by kind, state and receipt.
        # TYPE aye_asks gauge
        aye_asks{kind="question",state="open",receipt="none"} 0
        aye_asks{kind="permission",state="open",receipt="none"} 0
        aye_asks{kind="plan",state="answered",receipt="confirmed"} 7
        aye_asks{kind="plan",state="open",receipt="none"} 2
        # HELP aye_time_to_answer_seconds From raise to a person's answer.
        # TYPE aye_time_to_answer_seconds histogram
        aye_time_to_answer_seconds_bucket{kind="plan",le="1"} 1
        aye_time_to_answer_seconds_bucket{kind="plan",le="60"} 3
        aye_time_to_answer_seconds_bucket{kind="plan",le="+Inf"} 4
        aye_time_to_answer_seconds_sum{kind="plan"} 1000.5
        aye_time_to_answer_seconds_count{kind="plan"} 4
        # HELP aye_surfaces_connected Surfaces that follow what happens, Telegram among them, by role.
        # TYPE aye_surfaces_connected gauge
        aye_surfaces_connected{role="operator"} 1
        aye_surfaces_connected{role="viewer"} 3
        # HELP aye_agents Agents by state.
        # TYPE aye_agents gauge
        aye_agents{state="waiting"} 1
        aye_agents{state="ended"} 12
        # HELP aye_rule_decisions_total What rules decided of new asks.
        # TYPE aye_rule_decisions_total counter
        aye_rule_decisions_total{rule="rule 1 (\"a\\b\"\n} 1)",verdict="deny"} 4
        # HELP aye_unrecorded_allows_total What rules allowed and could not be recorded.
        # TYPE aye_unrecorded_allows_total counter
        aye_unrecorded_allows_total 2
        # HELP aye_commit_group_size Changes that shared one commit.
        # TYPE aye_commit_group_size histogram
        aye_commit_group_size_bucket{le="1"} 5
        aye_commit_group_size_bucket{le="2"} 5
        aye_commit_group_size_bucket{le="+Inf"} 5
        aye_commit_group_size_sum 5
        aye_commit_group_size_count 5
        # HELP aye_wrong_tokens_total Requests refused for a wrong token.
        # TYPE aye_wrong_tokens_total counter
        aye_wrong_tokens_total 9
        "##);
        // What can be told without the database is told while it is away.
        (figures.kept, figures.server) =
            (None, Some(ServerFigures { is_there: false, losses: 3, behind: 0 }));
        let away = render(&figures, 9);
        assert!(away.contains("\naye_database_up 0\n") && away.contains("\naye_database_losses_total 3\n"));
        assert!(away.contains("\naye_wrong_tokens_total 9\n") && !away.contains("aye_asks"));
    }
}
