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
        format!("{head}\n{}\n{}\n\n{}", "-".repeat(96), rows.join("\n"), self.missed())
    }

    /// Which goals are missed, in words: among many rows a single one is easily overlooked.
    fn missed(&self) -> String {
        let missed: Vec<_> = self.figures.iter().filter(|figure| figure.is_met() == Some(false)).collect();
        let goals = self.figures.iter().filter(|figure| figure.goal.is_some()).count();
        if missed.is_empty() {
            return format!("all {goals} goals are met");
        }
        let rows: Vec<_> = missed.iter().map(|figure| format!("  {}", figure.row())).collect();
        format!("{} of {goals} goals are missed:\n{}", missed.len(), rows.join("\n"))
    }

    pub fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let goal = figure.goal.map(|goal| goal_text(goal, figure.unit));
            json!({"figure": figure.name, "value": figure.value, "unit": figure.unit, "goal": goal,
                "met": figure.is_met()})
        });
        json!({ "figures": figures.collect::<Vec<_>>() })
    }
}

impl Figure {
    /// None without a goal.
    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| goal.is_met(self.value))
    }

    fn row(&self) -> String {
        let goal = self.goal.map_or_else(String::new, |goal| goal_text(goal, self.unit));
        let met = match self.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "NO",
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
