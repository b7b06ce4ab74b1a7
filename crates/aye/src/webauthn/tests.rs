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
    let new: PasskeyRegistration = serde_json::from_value(key.register(&challenge(register))).unwrap();
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
    let registration: PasskeyRegistration = serde_json::from_value(assertion).unwrap();
    assert_eq!(check_registration(&registration, statement, &pages()), Err(Unproven::OtherChallenge));
}

#[test]
fn data_that_is_cut_anywhere_is_refused_and_never_a_panic() {
    let statement = Statement { purpose: Purpose::Register, nonce: "n", subject: &Value::Null };
    let key = Authenticator::new(SITE, "aye.example");
    let whole: PasskeyRegistration = serde_json::from_value(key.register(&challenge(statement))).unwrap();
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
}

/// A map of CBOR: numbers, and strings of bytes.
fn cose(fields: &[(i8, &[u8])]) -> Vec<u8> {
    let number = |n: i64| match n {
        -24..0 => vec![0x20 | u8::try_from(-1 - n).unwrap()],
        ..0 => [&[0x39][..], &u16::try_from(-1 - n).unwrap().to_be_bytes()].concat(),
        0.. => vec![u8::try_from(n).unwrap()],
    };
    let mut out = vec![0xa0 | u8::try_from(fields.len()).unwrap()];
    for (label, value) in fields {
        out.extend(number((*label).into()));
        match (label, value) {
            // Kind, algorithm and curve are numbers; of an RSA key, -1 is the modulus.
            (1 | 3, _) | (-1, [_]) => {
                let value = value.iter().fold(0, |n: i64, byte| n << 8 | i64::from(*byte));
                out.extend(number(if *label == 3 { -value } else { value }));
            }
            _ => {
                out.push(0x59);
                out.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
                out.extend(*value);
            }
        }
    }
    out
}

fn es256(x: &[u8], y: &[u8]) -> Result<PublicKey, Unproven> {
    PublicKey::read(&cose(&[(1, &[2]), (3, &[7]), (-1, &[1]), (-2, x), (-3, y)]))
}

fn eddsa(key: &[u8]) -> Result<PublicKey, Unproven> {
    PublicKey::read(&cose(&[(1, &[1]), (3, &[8]), (-1, &[6]), (-2, key)]))
}

fn rs256(n: &[u8], e: &[u8]) -> Result<PublicKey, Unproven> {
    PublicKey::read(&cose(&[(1, &[3]), (3, &[1, 1]), (-1, n), (-2, e)]))
}

/// The base point of P-256.
const G: [[u8; 32]; 2] = [
    [
        0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77,
        0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
    ],
    [
        0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b,
        0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
    ],
];

#[test]
fn a_key_with_which_anybody_or_nobody_can_sign_is_refused() {
    let weak = |read: Result<PublicKey, Unproven>| assert_eq!(read, Err(Unproven::WeakKey));
    let [x, y] = G;
    assert!(es256(&x, &y).is_ok());
    weak(es256(&[0; 32], &[0; 32]));
    weak(es256(&x, &x));
    // Beyond the field.
    weak(es256(&[0xff; 32], &y));

    let base = [&[0x58][..], &[0x66; 31]].concat();
    assert!(eddsa(&base).is_ok());
    let p_minus_one = [&[0xec][..], &[0xff; 30], &[0x7f]].concat();
    let eighth = data_encoding::HEXLOWER
        .decode(b"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
        .unwrap();
    let other_eighth = data_encoding::HEXLOWER
        .decode(b"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
        .unwrap();
    let identity = [&[1][..], &[0; 31]].concat();
    let same_beyond_p = (0xed..=0xff).map(|low| [&[low][..], &[0xff; 30], &[0x7f]].concat());
    for mut point in
        [identity, vec![0; 32], p_minus_one, eighth, other_eighth].into_iter().chain(same_beyond_p)
    {
        weak(eddsa(&point));
        point[31] |= 0x80;
        weak(eddsa(&point));
    }

    let modulus = |bytes: usize| [&[0x80][..], &vec![0; bytes - 2], &[1]].concat();
    for good in [256, 384, 1024] {
        assert!(rs256(&modulus(good), &[1, 0, 1]).is_ok());
    }
    assert!(rs256(&modulus(256), &[3]).is_ok());
    weak(rs256(&modulus(255), &[1, 0, 1]));
    weak(rs256(&modulus(1025), &[1, 0, 1]));
    weak(rs256(&[&[0x7f][..], &modulus(256)[1..]].concat(), &[1, 0, 1]));
    weak(rs256(&[&[0][..], &modulus(256)].concat(), &[1, 0, 1]));
    weak(rs256(&[&modulus(256)[..255], &[2]].concat(), &[1, 0, 1]));
    for exponent in [&[][..], &[0], &[1], &[2], &[0, 3], &[1, 0, 0], &[3, 0, 0, 0, 1], &[1; 9]] {
        weak(rs256(&modulus(256), exponent));
    }
}

#[test]
fn a_key_has_each_field_once_and_nothing_else_in_it() {
    let [x, y] = &G;
    let whole: Vec<(i8, &[u8])> = vec![(1, &[2]), (3, &[7]), (-1, &[1]), (-2, x), (-3, y)];
    assert!(PublicKey::read(&cose(&whole)).is_ok());
    for field in whole.clone() {
        let twice = [&whole[..], &[field]].concat();
        assert!(PublicKey::read(&cose(&twice)).is_err(), "{} twice", field.0);
        let without: Vec<_> = whole.iter().copied().filter(|other| other.0 != field.0).collect();
        assert!(PublicKey::read(&cose(&without)).is_err(), "{} missing", field.0);
    }
    // The private half, and a use that is no signing.
    for more in [(-4, &[1; 32][..]), (4, &[1][..])] {
        assert!(PublicKey::read(&cose(&[&whole[..], &[more]].concat())).is_err(), "{}", more.0);
    }
    // The kind of one key with the algorithm of another.
    for (kind, algorithm) in [(1, 7), (3, 7), (2, 8), (2, 0)] {
        let fields: [(i8, &[u8]); 5] = [(1, &[kind]), (3, &[algorithm]), (-1, &[1]), (-2, x), (-3, y)];
        assert_eq!(PublicKey::read(&cose(&fields)), Err(Unproven::Unsupported));
    }
}

/// With bytes behind it, and these flags beside the usual ones.
fn changed(bytes: &Encoded, flags: u8, tail: &[u8]) -> Encoded {
    let mut bytes = [&bytes.0[..], tail].concat();
    bytes[32] |= flags;
    Encoded(bytes)
}

#[test]
fn authenticator_data_is_what_its_flags_say_and_nothing_more() {
    let statement = Statement { purpose: Purpose::Register, nonce: "n", subject: &Value::Null };
    let key = Authenticator::new(SITE, "aye.example");
    let whole: PasskeyRegistration = serde_json::from_value(key.register(&challenge(statement))).unwrap();
    let check = |flags: u8, tail: &[u8]| {
        let authenticator_data = changed(&whole.authenticator_data, flags, tail);
        check_registration(&PasskeyRegistration { authenticator_data, ..whole.clone() }, statement, &pages())
    };
    const ELIGIBLE: u8 = 1 << 3;
    const BACKED_UP: u8 = 1 << 4;
    const EXTENSIONS: u8 = 1 << 7;
    let empty_map = [0xa0];
    assert!(check(0, &[]).is_ok());
    assert!(check(EXTENSIONS, &empty_map).is_ok());
    assert!(check(ELIGIBLE, &[]).is_ok());
    assert!(check(ELIGIBLE | BACKED_UP, &[]).is_ok());
    for (flags, tail) in
        [(0, &[0][..]), (0, &empty_map), (EXTENSIONS, &[]), (EXTENSIONS, &[0xa0, 0]), (EXTENSIONS, &[1])]
    {
        assert!(check(flags, tail).is_err(), "{flags} {tail:?}");
    }
    assert!(check(BACKED_UP, &[]).is_err());
}

#[test]
fn a_page_around_ours_is_refused_whatever_is_said_of_it() {
    let statement = Statement { purpose: Purpose::Register, nonce: "n", subject: &Value::Null };
    let key = Authenticator::new(SITE, "aye.example");
    let whole: PasskeyRegistration = serde_json::from_value(key.register(&challenge(statement))).unwrap();
    let said: Value = serde_json::from_slice(&whole.client_data.0).unwrap();
    let check = |field: &str, value: Value| {
        let mut said = said.clone();
        said[field] = value;
        let client_data = Encoded(said.to_string().into_bytes());
        check_registration(&PasskeyRegistration { client_data, ..whole.clone() }, statement, &pages())
    };
    assert!(check("crossOrigin", json!(false)).is_ok());
    assert_eq!(check("crossOrigin", json!(true)), Err(Unproven::OtherOrigin));
    for top in [json!("https://evil.example"), json!(SITE), json!(""), json!(7)] {
        assert_eq!(check("topOrigin", top), Err(Unproven::OtherOrigin));
    }
}
