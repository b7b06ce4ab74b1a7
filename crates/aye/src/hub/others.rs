//! What the hub is told of its database: of its own commits, and of what other hubs on the same server did.

use super::agents::commands_of;
use super::credentials::InForce;
use super::feed::Feed;
use super::life::Life;
use super::meters::Meters;
use super::streams::Streams;
use crate::store::{FromOthers, News, Subject};
use aye_core::AgentState;
use std::sync::Arc;

/// Called with each commit, in order. Nothing here waits for the store.
pub fn tell(
    feed: Arc<Feed>,
    meters: Arc<Meters>,
    in_force: Arc<InForce>,
    life: Arc<Life>,
    streams: Arc<Streams>,
) -> impl Fn(News) + Send + 'static {
    move |news| match news {
        News::Own { changes, group } => {
            meters.commit(group);
            feed.publish(changes);
        }
        News::Others(FromOthers { changes, is_cut, commanded, ended_tokens }) => {
            ended_tokens.iter().for_each(|token| in_force.dismiss(token));
            commanded.iter().for_each(|agent| feed.wake(&commands_of(agent)));
            if is_cut {
                feed.skip();
            }
            for change in &changes {
                match &change.subject {
                    Subject::Agent(agent) => {
                        life.is_lost(&agent.id, agent.state == AgentState::Lost);
                        if matches!(agent.state, AgentState::Lost | AgentState::Ended) {
                            streams.let_go(&agent.id);
                        }
                    }
                    Subject::Event(agent, event) => streams.forget_text(agent, event),
                    Subject::Ask(_) | Subject::Notice(_) | Subject::Large(_) => {}
                }
            }
            feed.publish(changes);
        }
    }
}
