//! Public keys as authenticators write them (COSE), of the three kinds that browsers' passkeys have.

use super::Unproven;
use cbor4ii::core::Value;
use cbor4ii::core::dec::Decode;
use cbor4ii::core::utils::SliceReader;
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
        let fields = match Value::decode(&mut SliceReader::new(cose)) {
            Ok(Value::Map(fields)) => fields,
            _ => return Err(Unproven::Unreadable("the public key")),
        };
        let find = |label: i128| fields.iter().find(|(name, _)| *name == Value::Integer(label));
        let number = |label| match find(label) {
            Some((_, Value::Integer(number))) => Some(*number),
            _ => None,
        };
        let bytes = |label, length: usize| match find(label) {
            Some((_, Value::Bytes(bytes))) if length == 0 || bytes.len() == length => Ok(bytes.clone()),
            _ => Err(Unproven::Unreadable("the public key")),
        };
        match (number(KIND), number(ALGORITHM), number(-1)) {
            (Some(2), Some(-7), Some(1)) => {
                Ok(PublicKey::Es256([vec![4], bytes(-2, 32)?, bytes(-3, 32)?].concat()))
            }
            (Some(1), Some(-8), Some(6)) => Ok(PublicKey::EdDsa(bytes(-2, 32)?)),
            (Some(3), Some(-257), None) => Ok(PublicKey::Rs256 { n: bytes(-1, 0)?, e: bytes(-2, 0)? }),
            _ => Err(Unproven::Unsupported),
        }
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
