//! What was measured, beside what was hoped for.

use serde_json::{Value, json};
use std::time::Duration;

pub struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    goal: Option<Goal>,
}

#[derive(Clone, Copy)]
pub enum Goal {
    Below(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Goal::Below(limit) => value < limit,
            Goal::AtMost(limit) => value <= limit,
            Goal::AtLeast(limit) => value >= limit,
        }
    }
}

#[derive(Default)]
pub struct Report {
    figures: Vec<Figure>,
}

impl Report {
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str, goal: Option<Goal>) {
        let figure = Figure { name: name.into(), value, unit, goal };
        // Shown as they come: a run takes minutes.
        eprintln!("  {}", figure.row());
        self.figures.push(figure);
    }

    pub fn table(&self) -> String {
        let rows: Vec<_> = self.figures.iter().map(Figure::row).collect();
        let head = format!("{:<58} {:>14}  {:<12} {}", "figure", "measured", "goal", "met");
        format!("{head}\n{}\n{}", "-".repeat(96), rows.join("\n"))
    }

    pub fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let (goal, met) = match figure.goal {
                None => (Value::Null, Value::Null),
                Some(goal) => (json!(goal_text(goal, figure.unit)), json!(goal.is_met(figure.value))),
            };
            json!({"figure": figure.name, "value": figure.value, "unit": figure.unit, "goal": goal, "met": met})
        });
        json!({ "figures": figures.collect::<Vec<_>>() })
    }
}

impl Figure {
    fn row(&self) -> String {
        let (goal, met) = match self.goal {
            None => (String::new(), ""),
            Some(goal) => (goal_text(goal, self.unit), if goal.is_met(self.value) { "yes" } else { "NO" }),
        };
        let value = format!("{} {}", number(self.value), self.unit);
        format!("{:<58} {value:>14}  {goal:<12} {met}", self.name).trim_end().to_owned()
    }
}

fn goal_text(goal: Goal, unit: &str) -> String {
    match goal {
        Goal::Below(limit) => format!("< {limit} {unit}"),
        Goal::AtMost(limit) => format!("<= {limit} {unit}"),
        Goal::AtLeast(limit) => format!(">= {limit} {unit}"),
    }
    .trim_end()
    .to_owned()
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub fn percent(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64() * 100.0
}

/// The value that so many percent do not exceed.
pub fn percentile(values: &mut [u32], percent: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into the values")]
    let rank = ((values.len() as f64 * percent / 100.0).ceil() as usize).clamp(1, values.len()) - 1;
    f64::from(*values.select_nth_unstable(rank).1)
}
