//! Answers to secret questions. What was given goes to the agent; all that is recorded of it is a MAC with a salt, so that
//! whoever knows the secret and has the hub's key can still tell what was answered.

use crate::answer::{Answer, Choice, Reply};
use crate::body::Body;
use crate::digest::canonical;
use crate::trail::ChainKey;
use crate::who::Surface;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What people read in place of a secret.
pub const NOT_KEPT: &str = "(a secret, not kept)";

/// What is recorded of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// Random, for each answer anew.
    pub salt: String,
    /// HMAC-SHA-256 with the key of the trail, over the salt, the position of the question and what was given.
    pub mac: String,
}

impl Body {
    /// Why it cannot be answered on this surface, wherever else it can be.
    pub fn why_not_on(&self, surface: Surface) -> Option<&'static str> {
        let why =
            "it asks for a secret, which is never sent over Telegram. Answer it on the page or in a terminal";
        match surface {
            Surface::Telegram => self.has_secret().then_some(why),
            Surface::Terminal | Surface::Web | Surface::Desktop | Surface::Api => None,
        }
    }
}

impl Answer {
    /// The answer as it is recorded: without what was given to secret questions.
    pub fn sealed(&self, body: &Body, salt: &str, key: &ChainKey) -> Self {
        let (Answer::Question(Reply::Each { answers }), Body::Question(asked)) = (self, body) else {
            return self.clone();
        };
        let seal = |(i, choice): (usize, &Choice)| match (choice, asked.questions.get(i)) {
            (Choice::Given { .. }, Some(question)) if question.secret => {
                let text = canonical(&json!([salt, i, choice]));
                let mac = key.tag("secret answer", &text);
                Choice::Secret { secret: Sealed { salt: salt.to_owned(), mac } }
            }
            (Choice::Given { .. } | Choice::Skipped { .. } | Choice::Secret { .. }, _) => choice.clone(),
        };
        Answer::Question(Reply::Each { answers: answers.iter().enumerate().map(seal).collect() })
    }

    /// The salt that it was sealed with; none where nothing of it is secret.
    pub fn salt(&self) -> Option<&str> {
        let Answer::Question(Reply::Each { answers }) = self else { return None };
        answers.iter().find_map(|choice| match choice {
            Choice::Secret { secret } => Some(secret.salt.as_str()),
            Choice::Given { .. } | Choice::Skipped { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Kind;
    use serde_json::Value;

    fn body() -> Body {
        let question = |secret: bool| json!({"question": "Which?", "free_text": true, "secret": secret});
        Body::decode(Kind::Question, json!({"questions": [question(true), question(false), question(true)]}))
            .unwrap()
    }

    fn answer(secret: &str) -> Answer {
        let answers = json!({"answers": [{"text": secret}, {"text": "plain"}, {"skip": true}]});
        Answer::read(&body(), answers).unwrap()
    }

    #[test]
    fn a_secret_is_recorded_as_a_salted_mac_and_read_back_so() {
        let key = ChainKey::new([1; 32]);
        let sealed = answer("hunter2").sealed(&body(), "aa", &key);
        let written = sealed.to_json().to_string();
        assert!(!written.contains("hunter2") && written.contains("plain"), "{written}");
        assert_eq!(sealed.salt(), Some("aa"));
        assert_eq!(Answer::decode(Kind::Question, sealed.to_json()).unwrap(), sealed);
        assert_eq!(answer("hunter2").sealed(&body(), "aa", &key), sealed);
        for other in [
            answer("hunter3").sealed(&body(), "aa", &key),
            answer("hunter2").sealed(&body(), "ab", &key),
            answer("hunter2").sealed(&body(), "aa", &ChainKey::new([2; 32])),
        ] {
            assert_ne!(other, sealed);
        }
    }

    #[test]
    fn what_is_recorded_of_a_secret_is_no_answer_nor_is_one_that_would_be_kept() {
        let sealed = answer("x").sealed(&body(), "aa", &ChainKey::new([1; 32]));
        let noted = json!({"answers": [{"text": "x", "notes": "n"}, {"text": "y"}, {"skip": true}]});
        let refused = |answer: Value| Answer::read(&body(), answer).unwrap_err().field;
        assert_eq!(refused(sealed.to_json()), "answers[0].secret");
        assert_eq!(refused(noted), "answers[0].notes");
        assert_eq!(refused(json!({"response": "x"})), "response");
    }

    #[test]
    fn the_digest_covers_that_a_question_is_secret_and_other_questions_keep_theirs() {
        let written = |question: Value| {
            Body::decode(Kind::Question, json!({ "questions": [question] })).unwrap().to_json().to_string()
        };
        let question = json!({"question": "Which?", "free_text": true});
        assert!(!written(question.clone()).contains("secret"));
        let mut secret = question;
        secret["secret"] = true.into();
        assert!(written(secret).contains(r#""secret":true"#));
    }
}
