//! What an authenticator says of itself and of the person, in the binary form that it signs.

use super::Unproven;
use cbor4ii::core::Value;
use cbor4ii::core::dec::Decode;
use cbor4ii::core::utils::SliceReader;
use sha2::{Digest, Sha256};

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const MAY_BE_BACKED_UP: u8 = 1 << 3;
const IS_BACKED_UP: u8 = 1 << 4;
const HAS_CREDENTIAL: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;
/// A credential's id is no longer than this.
const LONGEST_ID: usize = 1023;

pub struct AuthenticatorData<'a> {
    rp_hash: &'a [u8],
    flags: u8,
    pub counter: u32,
    pub credential: Option<Credential<'a>>,
}

/// A new credential's id and its COSE key.
type Credential<'a> = (&'a [u8], &'a [u8]);

impl<'a> AuthenticatorData<'a> {
    /// All of it must be what the flags say, to the last byte.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Unproven> {
        let unreadable = Unproven::Unreadable("the authenticator data");
        let fields = || {
            let (rp_hash, rest) = bytes.split_at_checked(32)?;
            let (flags, rest) = rest.split_first()?;
            let (counter, rest) = rest.split_first_chunk::<4>()?;
            let (credential, rest) = match flags & HAS_CREDENTIAL {
                0 => (None, rest),
                _ => credential(rest).map(|(credential, rest)| (Some(credential), rest))?,
            };
            let rest = match flags & HAS_EXTENSIONS {
                0 => rest,
                _ => match split_value(rest)? {
                    (Value::Map(_), _, rest) => rest,
                    _ => return None,
                },
            };
            // What cannot be backed up is not.
            let backup_fits = flags & (MAY_BE_BACKED_UP | IS_BACKED_UP) != IS_BACKED_UP;
            let read = Self { rp_hash, flags: *flags, counter: u32::from_be_bytes(*counter), credential };
            (rest.is_empty() && backup_fits).then_some(read)
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

/// Behind 16 bytes that name the authenticator's model: the id's length, the id, the key; and what follows.
fn credential(bytes: &[u8]) -> Option<(Credential<'_>, &[u8])> {
    let (_model, rest) = bytes.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (id, rest) = rest.split_at_checked(length).filter(|_| (1..=LONGEST_ID).contains(&length))?;
    let (_, key, rest) = split_value(rest)?;
    Some(((id, key), rest))
}

/// The CBOR value that the bytes begin with, as it is written, and what follows.
pub fn split_value(bytes: &[u8]) -> Option<(Value, &[u8], &[u8])> {
    let mut reader = SliceReader::new(bytes);
    let value = Value::decode(&mut reader).ok()?;
    let left = cbor4ii::core::dec::Read::fill(&mut reader, bytes.len()).ok()?.as_ref().len();
    let (written, rest) = bytes.split_at_checked(bytes.len().checked_sub(left)?)?;
    Some((value, written, rest))
}
