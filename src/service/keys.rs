//! API keys.

use super::begun::{Broken, to_its_end};
use super::operation::{Reply, RotateKey};
use super::page_end::{end_early, json_bytes};
use super::{Caller, Changes, CreateKey, Service, ServiceError, within};
use crate::access::token::Secret;
use crate::domain::page::KeyWalk;
use crate::domain::{Invalid, KeyId, Limit, Timestamp, Ttl};
use crate::metadata::MetadataError;
use crate::metadata::keys::KeyChange;
use crate::metadata::keys::lineage::created_by;
use crate::wire;

impl Service {
    pub(super) async fn create_key(&self, caller: &Caller, new: CreateKey) -> Result<Reply, ServiceError> {
        let secret = Secret::generate()?;
        let CreateKey { name, roles, scopes, limits, lifetime } = new;
        let lifetime = match self.lifetime_max(caller, lifetime)? {
            Some(longest) => Some(lifetime.unwrap_or(longest)),
            None => lifetime,
        };
        let expires_at = lifetime.map(|lifetime| self.after(lifetime));
        let change = KeyChange::Create { id: secret.id, hash: secret.hash(), name, roles, scopes, limits, expires_at };
        let changed = self.metadata.change_key(change, caller.author());
        let key = Box::new(within(caller, Changes::Definitions, changed).await?);
        Ok(Reply::KeyMade { key, secret })
    }

    /// In the order of their names, revoked ones too.
    pub(super) async fn list_keys(
        &self,
        caller: &Caller,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
        let after = page_token.map(|token| KeyWalk.resume(token.as_ref())).transpose();
        let after = after.map_err(ServiceError::invalid("page_token"))?;
        let mut keys = within(caller, Changes::Nothing, self.metadata.keys()).await?;
        keys.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        keys.retain(|key| after.as_ref().is_none_or(|(name, id)| (&key.name, key.id) > (name, *id)));
        let (mut more, now) = (keys.len() > page_size.get(), self.clock.now());
        keys.truncate(page_size.get());
        more |= end_early(&mut keys, self.options.page_bytes_max, |key| json_bytes(&wire::Key::new(key, now)));
        let last = keys.last().filter(|_| more);
        let next_page_token = last.map(|key| KeyWalk.token_after(&key.name, key.id));
        Ok(Reply::Keys { keys, next_page_token })
    }

    pub(super) async fn get_key(&self, caller: &Caller, id: KeyId) -> Result<Reply, ServiceError> {
        let keys = within(caller, Changes::Nothing, self.metadata.keys()).await?;
        let created = created_by(id, &keys);
        let key = keys.into_iter().find(|key| key.id == id).ok_or(MetadataError::KeyNotFound(id))?;
        Ok(Reply::Key { key: Box::new(key), created })
    }

    pub(super) async fn rotate_key(&self, caller: &Caller, rotation: RotateKey) -> Result<Reply, ServiceError> {
        let RotateKey { id, overlap, lifetime } = rotation;
        let secret = Secret::generate_for(id)?;
        let expires_by = self.lifetime_max(caller, lifetime)?.map(|longest| self.after(longest));
        let expires_at = lifetime.map(|lifetime| self.after(lifetime));
        let (hash, previous_until) = (secret.hash(), self.after(overlap));
        let change = KeyChange::Rotate { id, hash, previous_until, expires_at, expires_by };
        let changed = self.metadata.change_key(change, caller.author());
        let key = Box::new(within(caller, Changes::Definitions, changed).await?);
        Ok(Reply::KeyMade { key, secret })
    }

    /// The key itself first, so that it creates no more.
    pub(super) async fn revoke_key(
        &self,
        caller: &Caller,
        id: KeyId,
        created_keys: bool,
    ) -> Result<Reply, ServiceError> {
        let (metadata, by) = (self.metadata.clone(), caller.author());
        let revoking = async move {
            let key = metadata.change_key(KeyChange::Revoke { id }, by.clone()).await.map_err(Broken::AtFirst)?;
            let mut created = created_by(id, &metadata.keys().await.map_err(Broken::Begun)?);
            // A created key may create another one until it is revoked itself. Each round revokes at least one.
            while created_keys && !created.is_empty() {
                for key in &created {
                    metadata.change_key(KeyChange::Revoke { id: key.id }, by.clone()).await.map_err(Broken::Begun)?;
                }
                created = created_by(id, &metadata.keys().await.map_err(Broken::Begun)?);
            }
            Ok((key, created))
        };
        let (key, created) = within(caller, Changes::Definitions, to_its_end(revoking)).await?;
        Ok(Reply::Key { key: Box::new(key), created })
    }

    /// The longest lifetime that a caller may give to a key, if it is bounded. Refuses a longer one.
    fn lifetime_max(&self, caller: &Caller, asked: Option<Ttl>) -> Result<Option<Ttl>, ServiceError> {
        if !caller.principal.expires() {
            return Ok(None);
        }
        let longest = self.options.key_lifetime_max;
        if asked.is_some_and(|asked| asked > longest) {
            let detail = format!(
                "expires must be {longest} at most (access.keys.lifetime_max_secs): the key, token or certificate of the \
                 caller expires too"
            );
            return Err(ServiceError::invalid("expires")(Invalid::argument(detail)));
        }
        Ok(Some(longest))
    }

    fn after(&self, time: Ttl) -> Timestamp {
        let nanos = u128::from(self.clock.now().as_nanos()) + time.as_duration().as_nanos();
        Timestamp::saturating_from_nanos(nanos)
    }
}
