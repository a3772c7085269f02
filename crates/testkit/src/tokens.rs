//! Makes tokens, valid and forged ones, for tests of code that must distinguish them.
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A signer of tokens.
pub enum Signer {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub fn ed() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    pub fn ec() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap())
    }

    /// With a key of openssl's: ring makes none.
    pub fn rsa(bits: usize) -> Self {
        let bits = format!("rsa_keygen_bits:{bits}");
        let arguments = ["genpkey", "-algorithm", "RSA", "-pkeyopt", &bits, "-outform", "DER"];
        let output = Command::new("openssl").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::Rsa(RsaKeyPair::from_der(&output.stdout).unwrap())
    }

    pub fn public(&self) -> &[u8] {
        match self {
            Self::Ed(pair) => pair.public_key().as_ref(),
            Self::Ec(pair) => pair.public_key().as_ref(),
            Self::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    pub fn jwk(&self, kid: &str) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ed(_) => json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encoded(self.public())}),
            Self::Ec(_) => {
                let (x, y) = self.public()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": encoded(x), "y": encoded(y)})
            }
            Self::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": encoded(&n), "e": encoded(&e)})
            }
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Ec(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
        }
    }
}

pub fn message(header: &Value, claims: &Value) -> String {
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", part(header), part(claims))
}

pub fn with_signature(message: &str, signature: &[u8]) -> String {
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

pub fn signed(signer: &Signer, header: &Value, claims: &Value) -> String {
    let message = message(header, claims);
    with_signature(&message, &signer.sign(message.as_bytes()))
}

pub fn header(alg: &str) -> Value {
    json!({"alg": alg, "typ": "JWT", "kid": "k"})
}

/// A value with other members; null members are left out.
pub fn with(base: &Value, members: &Value) -> Value {
    let mut changed = base.clone();
    for (name, value) in members.as_object().unwrap() {
        match value {
            Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
            value => changed[name] = value.clone(),
        }
    }
    changed
}
