//! ES256: ECDSA on P-256 with SHA-256, the signatures that every browser can make.

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

/// A public key as a browser exports it: an uncompressed point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Only the form is checked here; with a point that is not on the curve no signature is right.
    pub fn from_point(point: Vec<u8>) -> Option<Self> {
        (point.len() == 65 && point.first() == Some(&4)).then_some(Self(point))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the key's signature, in the form of WebCrypto: r and s, 32 bytes each.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0).verify(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    #[test]
    fn only_the_keys_own_signature_of_exactly_that_message_counts() {
        let random = SystemRandom::new();
        let make = || {
            let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap()
        };
        let (mine, other) = (make(), make());
        let key = PublicKey::from_point(mine.public_key().as_ref().to_vec()).unwrap();
        let signature = mine.sign(&random, b"message").unwrap();
        assert!(key.has_signed(b"message", signature.as_ref()));
        assert!(!key.has_signed(b"Message", signature.as_ref()));
        assert!(!key.has_signed(b"message", other.sign(&random, b"message").unwrap().as_ref()));
        assert!(!key.has_signed(b"message", &[0; 64]) && !key.has_signed(b"message", b""));
        let off_the_curve = PublicKey::from_point([&[4][..], &[1; 64]].concat()).unwrap();
        assert!(!off_the_curve.has_signed(b"message", signature.as_ref()));
        for wrong in [vec![], vec![4; 64], vec![4; 66], vec![2; 65]] {
            assert_eq!(PublicKey::from_point(wrong), None);
        }
    }
}
