//! Public keys as authenticators write them (COSE), of the three kinds that browsers' passkeys have. A key that no
//! authenticator makes is refused: with some of them, anybody's signature is good.

use super::Unproven;
use super::data::split_value;
use cbor4ii::core::Value;
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey, agree_ephemeral};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// A point of P-256, uncompressed.
    Es256(Vec<u8>),
    EdDsa(Vec<u8>),
    Rs256 {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

/// The labels of a COSE key.
const ALGORITHM: i128 = 3;
const KIND: i128 = 1;

impl PublicKey {
    pub fn read(cose: &[u8]) -> Result<Self, Unproven> {
        let unreadable = Unproven::Unreadable("the public key");
        let fields = match split_value(cose) {
            // Behind keys that an earlier version kept, there may be the authenticator's extensions.
            Some((Value::Map(fields), _, _)) => fields,
            _ => return Err(unreadable),
        };
        // Each field once, and no others: two readers must not see two keys.
        let find = |label: i128| {
            let mut named = fields.iter().filter(|(name, _)| *name == Value::Integer(label));
            named.next().filter(|_| named.next().is_none())
        };
        let number = |label| match find(label) {
            Some((_, Value::Integer(number))) => Some(*number),
            _ => None,
        };
        let bytes = |label| match find(label) {
            Some((_, Value::Bytes(bytes))) => Ok(bytes.clone()),
            _ => Err(Unproven::Unreadable("the public key")),
        };
        let (key, length) = match (number(KIND), number(ALGORITHM), number(-1)) {
            (Some(2), Some(-7), Some(1)) => (es256(bytes(-2)?, bytes(-3)?)?, 5),
            (Some(1), Some(-8), Some(6)) => (eddsa(bytes(-2)?)?, 4),
            (Some(3), Some(-257), None) => (rs256(bytes(-1)?, bytes(-2)?)?, 4),
            _ => return Err(Unproven::Unsupported),
        };
        if fields.len() == length { Ok(key) } else { Err(unreadable) }
    }

    pub fn verify(&self, signed: &[u8], signature: &[u8]) -> Result<(), Unproven> {
        let verified = match self {
            PublicKey::Es256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(signed, signature)
            }
            PublicKey::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(signed, signature),
            PublicKey::Rs256 { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
        };
        verified.map_err(|_| Unproven::OtherKey)
    }
}

fn es256(x: Vec<u8>, y: Vec<u8>) -> Result<PublicKey, Unproven> {
    if (x.len(), y.len()) != (32, 32) {
        return Err(Unproven::Unreadable("the public key"));
    }
    let point = [vec![4], x, y].concat();
    match is_on_the_curve(&point) {
        true => Ok(PublicKey::Es256(point)),
        false => Err(Unproven::WeakKey),
    }
}

/// Agreeing on a secret with a key begins with this check, and a signature's check does not tell why it failed.
fn is_on_the_curve(point: &[u8]) -> bool {
    let Ok(ours) = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()) else { return false };
    agree_ephemeral(ours, &agreement::UnparsedPublicKey::new(&ECDH_P256, point), |_| ()).is_ok()
}

/// The points of small order, by their y: with one of these as the key, signatures can be made without any secret.
const SMALL_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
];

fn eddsa(key: Vec<u8>) -> Result<PublicKey, Unproven> {
    let Ok(mut y) = <[u8; 32]>::try_from(&key[..]) else {
        return Err(Unproven::Unreadable("the public key"));
    };
    // The highest bit is the sign of x.
    y[31] &= 0x7f;
    // Read as a number, the last byte first: p is 2^255 - 19, and the same point could be written as y + p.
    let is_beyond_p = y[31] == 0x7f && y[1..31].iter().all(|byte| *byte == 0xff) && y[0] >= 0xed;
    match is_beyond_p || SMALL_ORDER.contains(&y) {
        true => Err(Unproven::WeakKey),
        false => Ok(PublicKey::EdDsa(key)),
    }
}

/// What can be checked without knowing its factors; the rest `ring` asks for as well, when it checks a signature.
fn rs256(n: Vec<u8>, e: Vec<u8>) -> Result<PublicKey, Unproven> {
    let (Some(high), Some(low)) = (n.first(), n.last()) else {
        return Err(Unproven::Unreadable("the public key"));
    };
    let bits = n.len() * 8 - high.leading_zeros() as usize;
    let has_size = *high != 0 && (2048..=8192).contains(&bits) && low % 2 == 1;
    // At most 33 bits, as `ring` takes it.
    let exponent = match e.as_slice() {
        [] | [0, ..] | [_, _, _, _, _, _, ..] => 0,
        bytes => bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)),
    };
    match has_size && exponent >= 3 && exponent % 2 == 1 && exponent < 1 << 33 {
        true => Ok(PublicKey::Rs256 { n, e }),
        false => Err(Unproven::WeakKey),
    }
}
