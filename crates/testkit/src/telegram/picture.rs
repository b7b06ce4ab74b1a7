//! A chat as a person sees it, for people who read what tests made.

use super::{Message, Telegram};

impl Telegram {
    /// Everything a chat shows, oldest first; 🔔 rings.
    pub fn picture(&self, chat: i64) -> String {
        self.messages(chat).iter().map(Message::picture).collect::<Vec<_>>().join("\n")
    }
}

impl Message {
    pub fn picture(&self) -> String {
        let bell = if self.silent { "" } else { " 🔔" };
        let reply = self.reply_to.map(|to| format!(" ↩ {to}")).unwrap_or_default();
        let mut out = format!("┌ {}{bell}{reply}\n", self.id);
        for line in self.text.lines() {
            out += &format!("│ {line}\n");
        }
        if let Some((name, text)) = &self.file {
            out += &format!("│ 📎 {name} ({} characters)\n", text.chars().count());
        }
        for row in &self.rows {
            let labels: Vec<_> = row.iter().map(|button| format!("[{}]", button.label)).collect();
            out += &format!("│ {}\n", labels.join(" "));
        }
        out
    }
}
