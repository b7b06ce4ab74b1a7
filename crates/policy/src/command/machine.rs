//! Matches a pattern against words as a nondeterministic state machine: one pass, no backtracking, all possible
//! positions in the pattern at once.

use super::word::{WordPattern, is_option};
use super::{Item, Step, What};

/// How much of a command a pattern covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    Covers,
    /// All words before this one are covered.
    Stops {
        word: usize,
        /// The step of the pattern that was reached.
        step: usize,
        /// The word is in the middle of a bracket, and does not continue it.
        inside: bool,
    },
    /// The pattern wants more words.
    Short,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Word(WordPattern),
    /// An option with its value in the same word: `--x=v`, and `-x5` if `numbers`.
    Attached {
        option: String,
        numbers: bool,
    },
    Plain,
    Anything,
}

impl Test {
    fn accepts(&self, word: &str) -> bool {
        match self {
            Test::Word(pattern) => pattern.matches(word),
            Test::Plain => !is_option(word),
            Test::Anything => true,
            Test::Attached { option, numbers } => word.strip_prefix(option.as_str()).is_some_and(|rest| {
                let number = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
                rest.strip_prefix('=').is_some_and(|value| !is_option(value)) || (*numbers && number)
            }),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    moves: Vec<(Test, usize)>,
    /// States reached from here without consuming a word.
    free: Vec<usize>,
    step: usize,
    inside: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    states: Vec<State>,
    accept: usize,
}

impl Machine {
    pub fn new(steps: &[Step]) -> Self {
        let mut machine = Self { states: vec![State::default()], accept: 0 };
        for (at, step) in steps.iter().enumerate() {
            let from = machine.accept;
            machine.accept = match &step.what {
                What::One(word) => {
                    let next_is_star = steps.get(at + 1).is_some_and(Step::takes_plain_words);
                    let to = machine.add(at, false);
                    machine.connect(from, Test::Word(word.clone()), to);
                    if next_is_star {
                        machine.attach(from, word, to, false);
                    }
                    to
                }
                What::Run(pieces) => {
                    let hub = machine.add(at, false);
                    machine.states[from].free.push(hub);
                    pieces.iter().for_each(|piece| machine.add_piece(piece, hub, at));
                    hub
                }
            };
        }
        machine
    }

    /// Adds a repeatable sequence: its end leads back to its start.
    fn add_piece(&mut self, piece: &[Item], hub: usize, step: usize) {
        let mut from = hub;
        let mut rest = piece;
        loop {
            let to = self.add(step, true);
            rest = match rest {
                [] => {
                    self.states[from].free.push(hub);
                    return;
                }
                [Item::Word(word), Item::Plain, rest @ ..] => {
                    let between = self.add(step, true);
                    self.connect(from, Test::Word(word.clone()), between);
                    self.connect(between, Test::Plain, to);
                    self.attach(from, word, to, true);
                    rest
                }
                [Item::Word(word), rest @ ..] => {
                    self.connect(from, Test::Word(word.clone()), to);
                    rest
                }
                [Item::Plain, rest @ ..] => {
                    self.connect(from, Test::Plain, to);
                    rest
                }
                [Item::Anything, rest @ ..] => {
                    self.states[from].free.push(to);
                    self.connect(to, Test::Anything, to);
                    rest
                }
            };
            from = to;
        }
    }

    fn add(&mut self, step: usize, inside: bool) -> usize {
        self.states.push(State { step, inside, ..State::default() });
        self.states.len() - 1
    }

    fn connect(&mut self, from: usize, test: Test, to: usize) {
        self.states[from].moves.push((test, to));
    }

    /// An option that takes a value may have it in the same word. A number directly after a letter counts only if the
    /// pattern says that there is exactly one value: `ls -l *` does not cover `ls -l5`.
    fn attach(&mut self, from: usize, word: &WordPattern, to: usize, one_value: bool) {
        let Some(option) = word.literal() else { return };
        let named = option.starts_with('-') && option != "-" && option != "--" && !option.contains('=');
        if named {
            let numbers = one_value && option.len() == 2 && option.as_bytes()[1].is_ascii_alphabetic();
            self.connect(from, Test::Attached { option: option.to_owned(), numbers }, to);
        }
    }

    pub fn fit(&self, words: &[String]) -> Fit {
        let mut active = self.closed([0]);
        for (at, word) in words.iter().enumerate() {
            let moves = active.iter().flat_map(|&state| &self.states[state].moves);
            let next = self.closed(moves.filter(|(test, _)| test.accepts(word)).map(|&(_, to)| to));
            if next.is_empty() {
                let step = active.iter().map(|&state| self.states[state].step).max().unwrap_or_default();
                let inside = active.iter().all(|&state| self.states[state].inside);
                return Fit::Stops { word: at, step, inside };
            }
            active = next;
        }
        if active.contains(&self.accept) { Fit::Covers } else { Fit::Short }
    }

    /// These states and all that follow without consuming a word, without duplicates.
    fn closed(&self, states: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut seen = vec![false; self.states.len()];
        let mut closed = vec![];
        let mut open: Vec<usize> = states.into_iter().collect();
        while let Some(state) = open.pop() {
            if !std::mem::replace(&mut seen[state], true) {
                closed.push(state);
                open.extend(&self.states[state].free);
            }
        }
        closed
    }
}
