use super::super::ended::{ended, refused_plan, too_late};
use super::{ask, asker, picture, questions, settled};
use crate::surfaces::form::Draft;
use aye_core::lifecycle::Delivery;
use aye_core::{Ask, By, Expiry, Kind, Receipt, State, Surface, Text};
use jiff::Timestamp;
use serde_json::json;

#[test]
fn the_end_says_what_was_chosen_by_whom_and_whether_it_arrived() {
    let answer = json!({"answers": [{"selected": ["SQLite"], "notes": "in a file"}, {"selected": ["Dark mode"], "text": "offline"}]});
    let answered = settled(questions(), answer, Receipt::Confirmed);
    insta::assert_snapshot!(ended(&answered, &asker(), &Draft::default()).html(), @"
    ❓ <b>DB</b>
    <i>claude in /src/web</i>

    Which database &lt;now&gt;?
    → <b>SQLite</b>
    <i>Note: </i>in a file
    Which features?
    → <b>Dark mode, offline</b>

    ✅ <b>Answered</b> by Ann on Telegram
    <i>Confirmed by the agent</i>
    ");
    let by = |name: &str| By::Person { name: Text::try_from(name).unwrap(), surface: Surface::Telegram };
    assert_eq!(
        too_late(&answered, &by("Bob")),
        "Already decided by Ann on Telegram: SQLite · Dark mode, offline"
    );
    assert_eq!(too_late(&answered, &by("Ann")), "You already answered: SQLite · Dark mode, offline");
    let permission = json!({"tool": "Bash", "input": {"command": "ls"}});
    let denied = settled(
        ask(Kind::Permission, permission),
        json!({"decision": "deny", "message": "not now"}),
        Receipt::Delivered,
    );
    insta::assert_snapshot!(ended(&denied, &asker(), &Draft::default()).html(), @"
    🔐 <b>Run a command</b>
    <i>claude in /src/web</i>
    <pre>ls</pre>

    ⛔ <b>Denied</b> by Ann on Telegram
    not now
    <i>Delivered to the agent</i>
    ");
    let expired = State::Expired {
        why: Expiry::Deadline,
        at: Timestamp::UNIX_EPOCH,
        delivery: Delivery { receipt: Receipt::Pending, evidence: None },
    };
    let expired = Ask { state: expired, ..ask(Kind::Plan, json!({"plan": "1. x"})) };
    insta::assert_snapshot!(ended(&expired, &asker(), &Draft::default()).html(), @"
    📋 <b>A plan</b>
    <i>claude in /src/web</i>

    1. x

    ⌛ <b>Nobody answered in time</b>
    ");
    assert_eq!(too_late(&expired, &by("Ann")), "Too late: nobody answered in time.");
}

#[test]
fn a_plan_refused_by_itself_can_be_let_pass_until_the_time_is_over() {
    let plan = ask(Kind::Plan, json!({"plan": "1. x"}));
    insta::assert_snapshot!(picture(&refused_plan(&plan, &asker(), Some(25), None)), @"
    📋 <b>A plan came before the outline</b>
    <i>claude in /src/web</i>

    1. x

    <i>End of the plan.</i>

    Denied automatically, because you asked for an outline first. Approve it within 25 s, and the same plan passes once when it comes again.
    | ✅ Approve plan | ⛔ Deny
    ");
    insta::assert_snapshot!(picture(&refused_plan(&plan, &asker(), None, None)), @"
    📋 <b>A plan came before the outline</b>
    <i>claude in /src/web</i>

    1. x

    <b>Denied automatically. The time to approve it is over.</b>
    ");
}
