//! Agents in a person's own terminal that take an answer from us as well, with the real programs.

mod codex;
mod opencode;
mod stage;
