//! What the server hands to a client to carry back: signatures of thinking, and texts that only the
//! server can read.
//!
//! Knows nothing of where the key comes from. A key that is lost costs the texts sealed with it,
//! never a request.

use std::fmt;
use std::sync::Arc;

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The first byte of everything made here: what it means may change with it.
const VERSION: u8 = 1;

/// The same text gives the same bytes, so an echoed history is spelled as it was. AES-GCM-SIV
/// allows a constant nonce: all it tells is which texts are equal. One nonce per use keeps a
/// signature from passing as a sealed text.
const SIGN_NONCE: [u8; 12] = *b"dynd-sign-v1";
const SEAL_NONCE: [u8; 12] = *b"dynd-seal-v1";

/// Signs and seals with one key. Cheap to clone.
#[derive(Clone)]
pub struct Sealer(Arc<Aes256GcmSiv>);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    pub fn new(key: [u8; 32]) -> Self {
        Sealer(Arc::new(Aes256GcmSiv::new(&key.into())))
    }

    /// A signature of `text`, as base64.
    pub fn sign(&self, text: &str) -> String {
        let payload = Payload { msg: &[], aad: text.as_bytes() };
        self.encrypt(SIGN_NONCE, payload)
    }

    /// Whether `signature` is what [`sign`](Self::sign) makes of `text` with this key.
    pub fn verify(&self, text: &str, signature: &str) -> bool {
        let Some(tag) = unwrap(signature) else { return false };
        let payload = Payload { msg: &tag, aad: text.as_bytes() };
        self.0.decrypt(&Nonce::from(SIGN_NONCE), payload).is_ok_and(|rest| rest.is_empty())
    }

    /// `text` as base64 that says nothing but its length.
    pub fn seal(&self, text: &str) -> String {
        self.encrypt(SEAL_NONCE, Payload { msg: text.as_bytes(), aad: &[] })
    }

    /// The text that [`seal`](Self::seal) was given; `None` for anything else.
    pub fn open(&self, sealed: &str) -> Option<String> {
        let bytes = unwrap(sealed)?;
        let payload = Payload { msg: &bytes, aad: &[] };
        let text = self.0.decrypt(&Nonce::from(SEAL_NONCE), payload).ok()?;
        String::from_utf8(text).ok()
    }

    fn encrypt(&self, nonce: [u8; 12], payload: Payload<'_, '_>) -> String {
        let sealed = self
            .0
            .encrypt(&Nonce::from(nonce), payload)
            .expect("AES-GCM-SIV takes 64 GiB and no request is as large");
        let mut bytes = Vec::with_capacity(1 + sealed.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&sealed);
        STANDARD.encode(bytes)
    }
}

/// The bytes behind the version; `None` when it is none of ours.
fn unwrap(text: &str) -> Option<Vec<u8>> {
    let mut bytes = STANDARD.decode(text).ok()?;
    (bytes.first() == Some(&VERSION)).then(|| bytes.split_off(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_text_and_key_alone() {
        let sealer = Sealer::new([7; 32]);
        let signature = sealer.sign("because");
        assert!(sealer.verify("because", &signature));
        assert!(!sealer.verify("because.", &signature));
        assert!(!Sealer::new([8; 32]).verify("because", &signature));
        assert!(!sealer.verify("because", ""));
        assert!(!sealer.verify("because", "AQ=="));
        assert_eq!(sealer.sign("because"), signature, "an echo is spelled the same");
    }

    #[test]
    fn a_sealed_text_opens_with_its_key_alone() {
        let sealer = Sealer::new([7; 32]);
        for text in ["", "ä\n\u{1f600}", "a long one ".repeat(1000).as_str()] {
            let sealed = sealer.seal(text);
            assert_eq!(sealer.open(&sealed).as_deref(), Some(text));
            assert_eq!(Sealer::new([8; 32]).open(&sealed), None);
            if !text.is_empty() {
                assert!(!sealed.contains(text));
            }
        }
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let sealer = Sealer::new([7; 32]);
        let sealed = sealer.seal("summary");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(sealer.open(&changed), None, "byte {at}");
        }
        assert_eq!(sealer.open(&sealer.sign("summary")), None, "a signature is no sealed text");
        assert!(!sealer.verify("summary", &sealed));
    }

    #[test]
    fn the_key_does_not_show() {
        assert_eq!(format!("{:?}", Sealer::new([7; 32])), "Sealer");
    }
}
