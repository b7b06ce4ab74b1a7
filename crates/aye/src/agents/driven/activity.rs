//! Whether a driven agent has anything left to do. A turn's end alone does not say so: sub-agents go on after it
//! and wake the agent again, and a prompt that came in the meantime starts another turn.

/// How much an agent has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkState {
    Working,
    /// It is idle and will most likely go on by itself.
    WillResume,
    Idle,
}

#[derive(Debug, Default)]
pub struct Activity {
    in_turn: bool,
    sub_agents: usize,
    /// Its last sub-agent has ended since the turn did.
    wakes: bool,
    /// Prompts that it has not taken up, as far as it shows that.
    prompts: usize,
    echoes: bool,
}

impl Activity {
    pub fn prompted(&mut self) {
        self.prompts += 1;
        self.begins();
    }

    /// It shows that it has taken up a prompt.
    pub fn echoed(&mut self) {
        self.echoes = true;
        self.prompts = self.prompts.saturating_sub(1);
    }

    pub fn begins(&mut self) {
        self.in_turn = true;
        self.wakes = false;
    }

    pub fn turn_ended(&mut self) {
        self.in_turn = false;
        self.wakes = false;
    }

    pub fn sub_agents(&mut self, working: usize) {
        self.wakes |= working == 0 && self.sub_agents > 0 && !self.in_turn;
        self.sub_agents = working;
    }

    pub fn work_state(&self) -> WorkState {
        if self.in_turn || self.sub_agents > 0 {
            WorkState::Working
        } else if self.wakes || (self.echoes && self.prompts > 0) {
            WorkState::WillResume
        } else {
            WorkState::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_turn() -> Activity {
        let mut activity = Activity::default();
        activity.prompted();
        activity.echoed();
        assert_eq!(activity.work_state(), WorkState::Working);
        activity
    }

    #[test]
    fn a_turn_that_ends_with_nothing_left_is_the_end() {
        let mut activity = after_a_turn();
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::Idle);
    }

    #[test]
    fn an_agent_that_echoes_nothing_is_idle_when_its_turn_ends() {
        let mut activity = Activity::default();
        activity.prompted();
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::Idle);
    }

    #[test]
    fn a_prompt_that_was_not_taken_up_yet_starts_another_turn() {
        let mut activity = after_a_turn();
        activity.prompted();
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::WillResume);
        activity.begins();
        activity.echoed();
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::Idle);
    }

    #[test]
    fn sub_agents_go_on_after_the_turn_and_wake_the_agent() {
        let mut activity = after_a_turn();
        activity.sub_agents(1);
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::Working);
        activity.sub_agents(0);
        assert_eq!(activity.work_state(), WorkState::WillResume);
        activity.begins();
        activity.turn_ended();
        assert_eq!(activity.work_state(), WorkState::Idle);
    }
}
