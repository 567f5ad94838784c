//! The key pair that signs service account tokens.

use anyhow::{Result, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
};

/// The bytes before the point of a P-256 public key in a SubjectPublicKeyInfo (RFC 5480).
const P256_HEADER: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key pair as PEM.
pub(crate) struct SigningKey {
    pub(crate) private: String,
    pub(crate) public: String,
}

impl SigningKey {
    pub(crate) fn generate() -> Result<Self> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|error| anyhow!("{error}"))?;
        let pair =
            EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random).map_err(|error| anyhow!("{error}"))?;
        let public = [&P256_HEADER, pair.public_key().as_ref()].concat();
        Ok(Self { private: pem("PRIVATE KEY", private.as_ref()), public: pem("PUBLIC KEY", &public) })
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines: Vec<&str> = base64.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
