use super::*;

fn plan(text: &str) -> Value {
    json!({ "plan": text })
}

#[test]
fn a_plan_is_approved_or_refused_with_feedback() {
    let phone = Phone::new();
    let first = phone.raise("a", "plan", plan("1. everything"));
    let message = phone.shown("1. everything");
    assert_eq!(message.labels(), ["✅ Approve", "⛔ Deny", "⛔ Deny with reason…", "⏸ Pause and outline"]);
    phone.bot.told(ANN, &message, "Deny with reason");
    phone.bot.changed(&message, "Send the reason");
    phone.bot.say(ANN, ANN, "smaller steps");
    assert_eq!(phone.ended(&first)["answer"], json!({"decision": "deny", "message": "smaller steps"}));
    let second = phone.raise("b", "plan", plan("1. less"));
    let message = phone.shown("1. less");
    phone.bot.told(ANN, &message, "Approve");
    assert_eq!(phone.ended(&second)["answer"], json!({"decision": "allow"}));
    phone.bot.changed(&message, "Approved by User11");
}

#[test]
fn a_long_plan_comes_in_parts_and_a_very_long_one_as_a_file_that_cannot_be_approved() {
    let phone = Phone::new();
    let text = "a line of the plan\n".repeat(500);
    let ask = phone.raise("a", "plan", plan(&text));
    let message = phone.shown("The plan is above");
    let parts: Vec<_> =
        phone.bot.messages(ANN).into_iter().filter(|part| part.text.starts_with("Plan, part")).collect();
    assert!(parts.iter().all(|part| part.id < message.id && part.silent) && !message.silent);
    let lines: usize = parts.iter().map(|part| part.text.matches("a line of the plan").count()).sum();
    assert_eq!((parts.len(), lines), (3, 500));
    phone.bot.told(ANN, &message, "Approve");
    assert_eq!(phone.ended(&ask)["answer"]["decision"], "allow");
    let text = "a line of the plan\n".repeat(2000);
    phone.raise("b", "plan", plan(&text));
    let message = phone.shown("cannot be approved here");
    assert_eq!(message.labels(), ["⛔ Deny", "⛔ Deny with reason…", "⏸ Pause and outline"]);
    let file = phone.bot.message_where(ANN, "the file", |message| message.file.is_some());
    assert_eq!(file.file.unwrap(), ("plan.md".to_owned(), text));
    phone.nothing_to_complain_of();
}

#[test]
fn a_plan_refused_by_itself_can_be_let_pass_and_then_passes_once() {
    let phone = Phone::new();
    let first = phone.raise("a", "plan", plan("1. everything"));
    let message = phone.shown("1. everything");
    phone.bot.told(ANN, &message, "Pause and outline");
    assert_eq!(phone.ended(&first)["answer"], json!({"decision": "outline"}));
    phone.bot.changed(&message, "Outline requested by User11");
    let again = phone.raise("b", "plan", plan("1. everything"));
    assert_eq!(again["state"], "answered", "refused by itself");
    let message = phone.shown("A plan came before the outline");
    assert_eq!(message.labels(), ["✅ Approve plan", "⛔ Deny"]);
    let notice = phone.bot.told(ANN, &message, "Approve plan");
    assert!(notice.text.contains("passes once"), "{notice:?}");
    let over = phone.bot.changed(&message, "Approved by User11");
    assert!(over.buttons.is_empty());
    let twice = phone.bot.press_data(ANN, ANN, message.id, &message.data("Approve plan"));
    assert!(phone.bot.notice(&twice).alert);
    let third = phone.raise("c", "plan", plan("1. everything"));
    assert_eq!((&third["state"], &third["answer"]["decision"]), (&json!("answered"), &json!("allow")));
    let fourth = phone.raise("d", "plan", plan("1. everything"));
    assert_eq!(fourth["state"], "open", "once");
}

#[test]
fn a_plan_refused_by_itself_can_be_denied_for_good() {
    let phone = Phone::new();
    phone.raise("a", "plan", plan("1. everything"));
    let message = phone.shown("1. everything");
    phone.bot.told(ANN, &message, "Pause and outline");
    phone.bot.changed(&message, "Outline requested");
    phone.raise("b", "plan", plan("2. another"));
    let message = phone.shown("2. another");
    phone.bot.told(ANN, &message, "Deny");
    phone.bot.changed(&message, "Denied by User11");
    assert_eq!(phone.raise("c", "plan", plan("3. more"))["state"], "open", "the pause is over");
}

#[test]
fn the_markdown_of_a_plan_is_rendered_and_stays_readable_when_it_ended() {
    let phone = Phone::new();
    let text = "# Storage\n1. **move** to `SQLite`\n```sql\nSELECT 1;\n```\n2. test 👩\u{200d}💻";
    phone.raise("a", "plan", plan(text));
    let message = phone.shown("Storage");
    let marked: Vec<_> =
        message.marked.entities.iter().map(|entity| (entity.kind, message.marked.of(entity))).collect();
    for (kind, words) in [("b", "# Storage"), ("b", "move"), ("code", "SQLite"), ("pre", "SELECT 1;")] {
        assert!(marked.contains(&(kind, words.to_owned())), "{kind} {words}: {marked:?}");
    }
    assert!(message.text.contains("2. test 👩\u{200d}💻"), "{}", message.text);
    phone.bot.told(ANN, &message, "⛔ Deny");
    let over = phone.bot.changed(&message, "Denied by User11");
    assert!(
        over.text.contains("# Storage\n1. move to SQLite") && !over.text.contains("\\n"),
        "{}",
        over.text
    );
    phone.nothing_to_complain_of();
}
