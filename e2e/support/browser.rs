//! A browser as far as the hub can tell: a cookie, and a key that signs.

use super::{Hub, Reply};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

pub const JSON: (&str, &str) = ("Content-Type", "application/json");

pub struct Browser {
    pub cookie: String,
    pub origin: String,
    key: EcdsaKeyPair,
    /// What the hub said to the sign-in.
    pub signed_in: Reply,
}

/// A call: method, path, headers, body.
pub type Call<'a> = &'a dyn Fn(&str, &str, &[(&str, &str)], Option<&[u8]>) -> Reply;

/// The code of a sign-in link, which is after its #.
pub fn code_of(link: &str) -> &str {
    link.split_once("/sign-in#").expect("a sign-in link").1
}

impl Browser {
    /// Uses a link, over whatever way calls go.
    pub fn sign_in(link: &str, origin: &str, call: Call) -> Result<Self, Reply> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
        let body = json!({"code": code_of(link), "public_key": hex(key.public_key().as_ref())}).to_string();
        let signed_in = call("POST", "/api/sign-in", &[("Origin", origin), JSON], Some(body.as_bytes()));
        let Some(cookie) = signed_in.header("set-cookie") else { return Err(signed_in) };
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Ok(Self { cookie, origin: origin.to_owned(), key, signed_in })
    }

    pub fn challenge(&self, call: Call) -> Reply {
        let headers = [("Cookie", &*self.cookie), ("Origin", &*self.origin), JSON];
        call("POST", "/api/session/challenge", &headers, Some(b"{}"))
    }

    /// The signature of this browser's page, were it at that origin.
    pub fn sign(&self, origin: &str, challenge: &str) -> String {
        let message = format!("aye page token\n{origin}\n{challenge}");
        hex(self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref())
    }

    pub fn trade(&self, call: Call, challenge: &str, signature: &str) -> Reply {
        let body = json!({"challenge": challenge, "signature": signature}).to_string();
        let headers = [("Cookie", &*self.cookie), ("Origin", &*self.origin), JSON];
        call("POST", "/api/session/token", &headers, Some(body.as_bytes()))
    }

    /// A token for the page, as a real one gets it.
    pub fn token(&self, call: Call) -> String {
        let challenge = self.challenge(call);
        assert_eq!(challenge.status, 200, "{}", challenge.body);
        let challenge = challenge.body["challenge"].as_str().unwrap().to_owned();
        let traded = self.trade(call, &challenge, &self.sign(&self.origin, &challenge));
        assert_eq!(traded.status, 200, "{}", traded.body);
        traded.body["token"].as_str().unwrap().to_owned()
    }
}

impl Hub {
    /// A browser that has used this link.
    pub fn browser_by(&self, link: &str) -> Result<Browser, Reply> {
        let origin = format!("http://{}", self.address);
        Browser::sign_in(link, &origin, &|method, path, headers, body| self.call(method, path, headers, body))
    }

    /// A browser that has used a link of its own.
    pub fn browser(&self) -> Browser {
        let made = self.post("/api/sign-in-links", &self.operator(), json!({})).body;
        self.browser_by(made["url"].as_str().unwrap()).unwrap_or_else(|reply| panic!("{}", reply.body))
    }

    pub fn page_token(&self, browser: &Browser) -> String {
        browser.token(&|method, path, headers, body| self.call(method, path, headers, body))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
