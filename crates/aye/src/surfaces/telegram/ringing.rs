//! Chooses the chats that ring for what is shown in all of them. Somebody who is in the group and has a private chat with the bot as
//! well is rung once.

use super::bot_loop::BotLoop;
use aye_core::AgentId;
use futures_util::FutureExt;
use std::collections::{BTreeSet, HashMap};

/// True for members of a group, as far as Telegram said so.
pub type Members = HashMap<(i64, i64), bool>;

/// A group rings if somebody who may be in it has no private chat listed; then the private chats of its known members do
/// not. What is not known rings once too often rather than not at all.
fn ringing(users: &[i64], chats: &[i64], members: &Members) -> BTreeSet<i64> {
    let mut ringing = BTreeSet::new();
    let mut rung = BTreeSet::<i64>::new();
    for group in chats.iter().filter(|chat| **chat < 0) {
        let is_member = |user: &i64| members.get(&(*group, *user)).copied();
        let mut here = users.iter().filter(|user| is_member(user) != Some(false));
        if here.any(|user| !chats.contains(user) && !rung.contains(user)) {
            ringing.insert(*group);
            rung.extend(users.iter().copied().filter(|user| is_member(user) == Some(true)));
        }
    }
    ringing.extend(chats.iter().filter(|chat| **chat > 0 && !rung.contains(chat)));
    if ringing.is_empty() { chats.iter().copied().collect() } else { ringing }
}

impl BotLoop {
    /// True if this chat rings for an agent's asks.
    pub(super) fn rings(&self, chat: i64, agent: &AgentId) -> bool {
        !self.asks_everywhere(agent) || self.rings_now(chat)
    }

    /// True if this chat was kept silent because of another that turned out not to take messages.
    pub(super) fn rings_instead(&self, chat: i64, agent: &AgentId) -> bool {
        let all = ringing(&self.settings.users, &self.settings.chats, &self.members);
        self.asks_everywhere(agent) && !all.contains(&chat) && self.rings_now(chat)
    }

    /// Chats that take no messages ring nobody, but this one is about to.
    fn rings_now(&self, chat: i64) -> bool {
        let takes =
            |other: &&i64| **other == chat || self.queues.get(other).is_some_and(|queue| !queue.is_blocked());
        let open: Vec<_> = self.settings.chats.iter().filter(takes).copied().collect();
        ringing(&self.settings.users, &open, &self.members).contains(&chat)
    }

    /// Asks Telegram who of those who have a private chat is in which group.
    pub(super) fn look_up_members(&mut self) {
        let private = |user: &&i64| self.settings.chats.contains(user);
        let users: Vec<_> = self.settings.users.iter().filter(private).copied().collect();
        let groups: Vec<_> = self.settings.chats.iter().filter(|chat| **chat < 0).copied().collect();
        if users.is_empty() || groups.is_empty() {
            return;
        }
        let bot = self.bot.clone();
        self.look_ups.spawn(
            async move {
                let mut members = Members::new();
                for group in groups {
                    for user in &users {
                        match bot.is_member(group, *user).await {
                            Ok(is_member) => drop(members.insert((group, *user), is_member)),
                            Err(error) => {
                                tracing::debug!(group, user, %error, "who is in a group is not known")
                            }
                        }
                    }
                }
                members
            }
            .boxed(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(users: &[i64], chats: &[i64], members: &[(i64, i64, bool)]) -> Vec<i64> {
        let members = members.iter().map(|(group, user, is)| ((*group, *user), *is)).collect();
        ringing(users, chats, &members).into_iter().collect()
    }

    #[test]
    fn nobody_is_rung_twice_and_nobody_is_left_out() {
        // Everybody has a private chat: the group is silent.
        assert_eq!(rings(&[1, 2], &[1, 2, -5], &[(-5, 1, true), (-5, 2, true)]), [1, 2]);
        // Bob has none, so the group rings, and Ann's own chat does not if she is in it.
        assert_eq!(rings(&[1, 2], &[1, -5], &[(-5, 1, true)]), [-5]);
        assert_eq!(rings(&[1, 2], &[1, -5], &[(-5, 1, false)]), [-5, 1]);
        assert_eq!(rings(&[1, 2], &[1, -5], &[]), [-5, 1], "nobody knows whether she is");
        assert_eq!(rings(&[1, 2], &[-5], &[]), [-5]);
        assert_eq!(rings(&[1], &[1], &[]), [1]);
        // Two groups with the same people.
        let both = [(-5, 1, true), (-5, 2, true), (-6, 1, true), (-6, 2, true)];
        assert_eq!(rings(&[1, 2], &[-5, -6], &both), [-5]);
        assert_eq!(rings(&[1], &[-5], &[(-5, 1, false)]), [-5], "somebody rings in any case");
    }
}
