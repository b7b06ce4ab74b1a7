use super::*;
use aye_testkit::authenticator::Authenticator;

const SITE: &str = "https://aye.example";

fn pages() -> Pages {
    Pages::of(Some(&crate::url::HubUrl::https("aye.example")), false, 7177)
}

fn challenge(statement: Statement) -> Value {
    json!({ "nonce": statement.nonce, "challenge": statement.challenge() })
}

#[test]
fn what_is_signed_differs_in_purpose_nonce_and_subject_and_not_in_the_order_of_keys() {
    let (one, two) = (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}));
    let of = |purpose, nonce, subject| Statement { purpose, nonce, subject }.challenge();
    let base = of(Purpose::Allow, "n", &one);
    assert_eq!(base, of(Purpose::Allow, "n", &two));
    assert_ne!(base, of(Purpose::ApprovePlan, "n", &one));
    assert_ne!(base, of(Purpose::Allow, "m", &one));
    assert_ne!(base, of(Purpose::Allow, "n", &json!({"a": 1, "b": 3})));
}

#[test]
fn a_passkey_belongs_to_a_name_and_never_to_an_address() {
    let at = |url: &str| crate::url::HubUrl::try_from(url.to_owned()).unwrap();
    let origins = |public: &str, tls, port| {
        let pages = Pages::of(Some(&at(public)), tls, port);
        pages.sites().map(|site| (site.origin.clone(), site.rp.clone())).collect::<Vec<_>>()
    };
    let local = ("http://localhost:7177".to_owned(), "localhost".to_owned());
    assert_eq!(origins(SITE, false, 7177), [(SITE.to_owned(), "aye.example".to_owned()), local.clone()]);
    assert_eq!(origins("https://10.0.0.1:7177", false, 7177), [local]);
    assert_eq!(
        origins("https://[::1]", true, 443),
        [("https://localhost".to_owned(), "localhost".to_owned())]
    );
}

#[test]
fn every_byte_that_is_changed_breaks_the_signature() {
    let subject = json!({"ask": "k"});
    let statement = Statement { purpose: Purpose::Allow, nonce: "n", subject: &subject };
    let register = Statement { purpose: Purpose::Register, nonce: "r", subject: &Value::Null };
    let mut key = Authenticator::new(SITE, "aye.example");
    let new: Registration = serde_json::from_value(key.register(&challenge(register))).unwrap();
    let new = check_registration(&new, register, &pages()).unwrap();
    assert_eq!((new.rp.as_str(), &new.credential.0), ("aye.example", &key.credential));
    let assertion: Assertion = serde_json::from_value(key.assert(&challenge(statement))).unwrap();
    let check = |assertion: &Assertion| {
        check_assertion(assertion, statement, (&new.key, &new.rp), |site| pages().contains(site))
    };
    assert_eq!(check(&assertion), Ok(1));
    for i in 0..assertion.authenticator_data.0.len() {
        let mut changed = assertion.clone();
        changed.authenticator_data.0[i] ^= 1;
        assert!(check(&changed).is_err(), "authenticator data, byte {i}");
    }
    for i in 0..assertion.client_data.0.len() {
        let mut changed = assertion.clone();
        changed.client_data.0[i] ^= 1;
        assert!(check(&changed).is_err(), "client data, byte {i}");
    }
    for i in 0..assertion.signature.0.len() {
        let mut changed = assertion.clone();
        changed.signature.0[i] ^= 1;
        assert!(check(&changed).is_err(), "signature, byte {i}");
    }
}

#[test]
fn an_assertion_is_no_registration_and_the_other_way_round() {
    let subject = json!({});
    let statement = Statement { purpose: Purpose::Register, nonce: "n", subject: &subject };
    let mut key = Authenticator::new(SITE, "aye.example");
    let mut assertion = key.assert(&challenge(statement));
    for field in ["credential", "signature"] {
        assertion.as_object_mut().unwrap().shift_remove(field);
    }
    let registration: Registration = serde_json::from_value(assertion).unwrap();
    assert_eq!(check_registration(&registration, statement, &pages()), Err(Unproven::OtherChallenge));
}

#[test]
fn data_that_is_cut_anywhere_is_refused_and_never_a_panic() {
    let statement = Statement { purpose: Purpose::Register, nonce: "n", subject: &Value::Null };
    let key = Authenticator::new(SITE, "aye.example");
    let whole: Registration = serde_json::from_value(key.register(&challenge(statement))).unwrap();
    assert!(check_registration(&whole, statement, &pages()).is_ok());
    for end in 0..whole.authenticator_data.0.len() {
        let mut cut = whole.clone();
        cut.authenticator_data.0.truncate(end);
        assert!(check_registration(&cut, statement, &pages()).is_err(), "{end}");
    }
}

#[test]
fn other_kinds_of_keys_are_refused_by_name() {
    // A P-384 key, and one whose parts are too short.
    let es384 = [&[0xa5, 1, 2, 3, 0x38, 34, 0x20, 2, 0x21, 0x41, 1, 0x22, 0x41, 1][..]].concat();
    assert_eq!(PublicKey::read(&es384), Err(Unproven::Unsupported));
    let short = [&[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x41, 1, 0x22, 0x41, 1][..]].concat();
    assert_eq!(PublicKey::read(&short), Err(Unproven::Unreadable("the public key")));
    let ed25519 = [&[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..], &[7; 32]].concat();
    assert_eq!(PublicKey::read(&ed25519), Ok(PublicKey::EdDsa(vec![7; 32])));
    let rsa = [&[0xa4, 1, 3, 3, 0x39, 1, 0, 0x20, 0x41, 9, 0x21, 0x43, 1, 0, 1][..]].concat();
    assert_eq!(PublicKey::read(&rsa), Ok(PublicKey::Rs256 { n: vec![9], e: vec![1, 0, 1] }));
}
