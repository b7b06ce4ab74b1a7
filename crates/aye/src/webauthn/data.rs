//! What an authenticator says of itself and of the person, in the binary form that it signs.

use super::Unproven;
use cbor4ii::core::Value;
use cbor4ii::core::dec::Decode;
use cbor4ii::core::utils::SliceReader;
use sha2::{Digest, Sha256};

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const HAS_CREDENTIAL: u8 = 1 << 6;
/// A credential's id is no longer than this.
const LONGEST_ID: usize = 1023;

pub struct AuthenticatorData<'a> {
    rp_hash: &'a [u8],
    flags: u8,
    pub counter: u32,
    /// A new credential's id and its COSE key.
    pub credential: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> AuthenticatorData<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, Unproven> {
        let unreadable = Unproven::Unreadable("the authenticator data");
        let fields = || {
            let (rp_hash, rest) = bytes.split_at_checked(32)?;
            let (flags, rest) = rest.split_first()?;
            let (counter, rest) = rest.split_first_chunk::<4>()?;
            let credential = match flags & HAS_CREDENTIAL {
                0 => None,
                _ => Some(credential(rest)?),
            };
            Some(Self { rp_hash, flags: *flags, counter: u32::from_be_bytes(*counter), credential })
        };
        fields().ok_or(unreadable)
    }

    /// Whether it was made for this site, with the person there and verified.
    pub fn check(&self, rp: &str) -> Result<(), Unproven> {
        if self.rp_hash != Sha256::digest(rp.as_bytes()).as_slice() {
            return Err(Unproven::OtherSite);
        }
        match self.flags & (PRESENT | VERIFIED) == PRESENT | VERIFIED {
            true => Ok(()),
            false => Err(Unproven::NotVerified),
        }
    }
}

/// Behind 16 bytes that name the authenticator's model: the id's length, the id, the key, and perhaps extensions.
fn credential(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_model, rest) = bytes.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (id, rest) = rest.split_at_checked(length).filter(|_| (1..=LONGEST_ID).contains(&length))?;
    let mut reader = SliceReader::new(rest);
    Value::decode(&mut reader).ok()?;
    let left = cbor4ii::core::dec::Read::fill(&mut reader, 0).ok()?.as_ref().len();
    Some((id, rest.split_at_checked(rest.len().checked_sub(left)?)?.0))
}
