//! A passkey in software: what a browser and its authenticator do together, and what they would never do.

use data_encoding::BASE64URL_NOPAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const HAS_CREDENTIAL: u8 = 1 << 6;

pub struct Authenticator {
    pair: EcdsaKeyPair,
    pub credential: Vec<u8>,
    pub counter: u32,
    /// Whether it verifies the person.
    pub verifies: bool,
    pub origin: String,
    pub rp: String,
    /// Whether the page was framed by another.
    pub framed: bool,
}

impl Authenticator {
    /// # Panics
    /// Without randomness.
    #[allow(clippy::unwrap_used)]
    pub fn new(origin: &str, rp: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        let credential = digest(&SHA256, pair.public_key().as_ref()).as_ref()[..16].to_vec();
        let (origin, rp) = (origin.to_owned(), rp.to_owned());
        Self { pair, credential, counter: 0, verifies: true, origin, rp, framed: false }
    }

    /// The reply to `navigator.credentials.create`, as the page sends it.
    pub fn register(&self, challenge: &Value) -> Value {
        let mut data = self.data(HAS_CREDENTIAL);
        data.extend([0; 16]);
        data.extend((self.credential.len() as u16).to_be_bytes());
        data.extend(&self.credential);
        data.extend(self.cose_key());
        json!({
            "nonce": challenge["nonce"],
            "authenticator_data": encode(&data),
            "client_data": encode(&self.client_data("webauthn.create", challenge)),
        })
    }

    /// The reply to `navigator.credentials.get`, as the page sends it.
    ///
    /// # Panics
    /// Without randomness.
    #[allow(clippy::unwrap_used)]
    pub fn assert(&mut self, challenge: &Value) -> Value {
        self.counter += 1;
        let (data, client) = (self.data(0), self.client_data("webauthn.get", challenge));
        let signed = [&data, digest(&SHA256, &client).as_ref()].concat();
        let signature = self.pair.sign(&SystemRandom::new(), &signed).unwrap();
        json!({
            "nonce": challenge["nonce"],
            "credential": encode(&self.credential),
            "authenticator_data": encode(&data),
            "client_data": encode(&client),
            "signature": encode(signature.as_ref()),
        })
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        let verified = if self.verifies { VERIFIED } else { 0 };
        let mut data = digest(&SHA256, self.rp.as_bytes()).as_ref().to_vec();
        data.push(flags | PRESENT | verified);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn client_data(&self, kind: &str, challenge: &Value) -> Vec<u8> {
        let (challenge, origin, framed) = (&challenge["challenge"], &self.origin, self.framed);
        let data = json!({"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": framed});
        data.to_string().into_bytes()
    }

    /// A map of five: an elliptic curve key for ES256 on P-256, x and y.
    fn cose_key(&self) -> Vec<u8> {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (&point[1..33], &point[33..65]);
        [&[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32], x, &[0x22, 0x58, 32], y].concat()
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}
