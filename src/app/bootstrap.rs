//! The first API key, from a file that was prepared for the server, such as a mounted Secret.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::StartError;
use crate::access::token::Presented;
use crate::actors::MetadataHandle;
use crate::domain::{Author, KeyName, RateLimits, Role, Scope};
use crate::metadata::MetadataError;
use crate::metadata::keys::KeyChange;

/// The name of the key, and of the author of its creation.
const NAME: &str = "bootstrap";
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Creates an admin key with the secret in a file, if no key was ever created. Without the metadata store it is tried
/// again until the store is available.
pub(super) async fn create_first_key(path: Option<&Path>, metadata: &MetadataHandle) -> Result<(), StartError> {
    let Some(path) = path else { return Ok(()) };
    let change = read(path).map_err(|reason| StartError::BootstrapKey { path: path.to_owned(), reason })?;
    let Err(error) = attempt(&change, metadata).await else { return Ok(()) };
    tracing::warn!(%error, "cannot create the first API key yet: retrying");
    let metadata = metadata.clone();
    actix::spawn(async move {
        let mut delay = RETRY_DELAY_MIN;
        loop {
            sleep(delay).await;
            if attempt(&change, &metadata).await.is_ok() {
                return;
            }
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    });
    Ok(())
}

fn read(path: &Path) -> Result<KeyChange, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let presented = Presented::read(text.trim().as_bytes()).filter(Presented::is_whole);
    let presented = presented.ok_or("it has no API key: write one with `liststore key generate`")?;
    Ok(KeyChange::Create {
        id: presented.id,
        hash: presented.hash(),
        name: KeyName::new(NAME).map_err(|error| error.to_string())?,
        roles: vec![Role::Admin],
        scopes: vec![Scope::all()],
        limits: RateLimits::default(),
        expires_at: None,
    })
}

/// Another server may be faster: then its key is the same.
async fn attempt(change: &KeyChange, metadata: &MetadataHandle) -> Result<(), MetadataError> {
    // Revoked keys count: a revocation of the first key is final.
    if !metadata.keys().await?.is_empty() {
        return Ok(());
    }
    let by = Author::new(NAME).unwrap_or_else(|_| Author::anonymous());
    match metadata.change_key(change.clone(), by).await {
        Ok(key) => {
            tracing::info!(key = %key.id, "created the first API key from access.bootstrap_key_file");
            Ok(())
        }
        Err(MetadataError::KeyExists(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
