//! Decides from the listen address and the settings whether the server accepts callers without a key.

use std::net::{IpAddr, ToSocketAddrs};

use super::StartError;
use crate::access::Mode;
use crate::config::{AccessMode, HostPort, Settings};
use crate::metadata::MetadataStore;

/// How the server treats callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrance {
    pub mode: Mode,
    /// Whether callers on other machines need no key until the first key exists.
    pub is_insecure: bool,
}

/// Refuses to serve a network without keys, unless the settings ask for it.
pub async fn entrance(settings: &Settings, metadata: &dyn MetadataStore) -> Result<Entrance, StartError> {
    let beyond = !is_loopback(&settings.http.listen);
    let is_insecure = beyond && settings.access.insecure;
    let exposed = || StartError::Exposed { address: settings.http.listen.to_string() };
    let mode = match settings.access.mode {
        AccessMode::Required => Mode::Always,
        AccessMode::Open if beyond && !is_insecure => return Err(exposed()),
        AccessMode::Open => Mode::Never,
        // The settings name other credentials, so callers must present one.
        AccessMode::Auto if settings.access.can_identify_callers() => Mode::Always,
        AccessMode::Auto if !beyond || is_insecure => Mode::OnceConfigured,
        AccessMode::Auto => match metadata.keys(None).await {
            Ok(Some(keys)) if keys.keys.is_empty() => return Err(exposed()),
            Ok(_) => Mode::Always,
            // Until the keys are loaded, the server refuses callers without a key.
            Err(error) => {
                tracing::warn!(%error, "cannot read the API keys yet: callers with keys are refused until they are \
                                        loaded");
                Mode::Always
            }
        },
    };
    Ok(Entrance { mode, is_insecure })
}

/// Whether only this machine can reach an address. An unresolvable name counts as reachable from outside.
fn is_loopback(listen: &HostPort) -> bool {
    if let Ok(address) = listen.host().parse::<IpAddr>() {
        return address.is_loopback();
    }
    let addresses = (listen.host(), listen.port()).to_socket_addrs();
    addresses.is_ok_and(|addresses| {
        let addresses: Vec<_> = addresses.collect();
        !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, Layers};
    use crate::domain::{Author, KeyId, KeyName, RateLimits, Role, Scope, SecretHash, Timestamp};
    use crate::metadata::keys::KeyChange;
    use crate::metadata::{AccessStore, ChangeContext, memory};

    fn settings(given: &[(&'static str, &str)]) -> Settings {
        let flags: Vec<_> =
            given.iter().map(|(key, value)| Flag { flag: "test", key, value: (*value).to_owned() }).collect();
        let layers = Layers { config_file: None, environment: vec![], flags: &flags };
        Settings::load_from(&layers).unwrap().settings
    }

    async fn mode_of(given: &[(&'static str, &str)], with_key: bool) -> Option<(Mode, bool)> {
        let store = memory::memory_store();
        if with_key {
            let change = KeyChange::Create {
                id: KeyId::new("0123456789ab").unwrap(),
                hash: SecretHash::new([0; 32]),
                name: KeyName::new("feed").unwrap(),
                roles: vec![Role::Reader],
                scopes: vec![Scope::all()],
                limits: RateLimits::default(),
                expires_at: None,
            };
            let context = ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
            store.change_key(change, context).await.unwrap();
        }
        let entrance = entrance(&settings(given), &store).await;
        entrance.ok().map(|entrance| (entrance.mode, entrance.is_insecure))
    }

    #[tokio::test]
    async fn only_a_server_on_loopback_is_open_by_default() {
        for listen in ["127.0.0.1:0", "[::1]:0", "127.9.9.9:0", "localhost:0"] {
            assert_eq!(
                mode_of(&[("http.listen", listen)], false).await,
                Some((Mode::OnceConfigured, false)),
                "{listen}"
            );
        }
        for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let at = ("http.listen", listen);
            assert_eq!(mode_of(&[at], false).await, None, "{listen}");
            assert_eq!(mode_of(&[at, ("access.mode", "open")], true).await, None, "{listen}");
            assert_eq!(mode_of(&[at], true).await, Some((Mode::Always, false)), "{listen}");
            assert_eq!(mode_of(&[at, ("access.mode", "required")], false).await, Some((Mode::Always, false)));
            let rule = r#"[{"issuer": "i", "audience": "a", "jwks_file": "f"}]"#;
            assert_eq!(mode_of(&[at, ("access.jwt.issuers", rule)], false).await, Some((Mode::Always, false)));
            let insecure = [at, ("access.insecure", "true")];
            assert_eq!(mode_of(&insecure, false).await, Some((Mode::OnceConfigured, true)));
        }
    }
}
