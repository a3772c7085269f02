//! API keys.

use super::operation::{Reply, RotateKey};
use super::{Caller, Changes, CreateKey, PageRenderer, Service, ServiceError, within};
use crate::access::token::Secret;
use crate::domain::page::KeyWalk;
use crate::domain::{KeyId, Limit, Timestamp, Ttl};
use crate::metadata::MetadataError;
use crate::metadata::keys::KeyChange;

impl<R: PageRenderer> Service<R> {
    pub(super) async fn create_key(&self, caller: &Caller, new: CreateKey) -> Result<Reply, ServiceError> {
        let secret = Secret::generate()?;
        let CreateKey { name, roles, scopes, limits, lifetime } = new;
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
        let more = keys.len() > page_size.get();
        keys.truncate(page_size.get());
        let last = keys.last().filter(|_| more);
        let next_page_token = last.map(|key| KeyWalk.token_after(&key.name, key.id));
        Ok(Reply::Keys { keys, next_page_token })
    }

    pub(super) async fn get_key(&self, caller: &Caller, id: KeyId) -> Result<Reply, ServiceError> {
        let keys = within(caller, Changes::Nothing, self.metadata.keys()).await?;
        let key = keys.into_iter().find(|key| key.id == id).ok_or(MetadataError::KeyNotFound(id))?;
        Ok(Reply::Key(Box::new(key)))
    }

    pub(super) async fn rotate_key(&self, caller: &Caller, rotation: RotateKey) -> Result<Reply, ServiceError> {
        let RotateKey { id, overlap, lifetime } = rotation;
        let secret = Secret::generate_for(id)?;
        let expires_at = lifetime.map(|lifetime| self.after(lifetime));
        let change = KeyChange::Rotate { id, hash: secret.hash(), previous_until: self.after(overlap), expires_at };
        let changed = self.metadata.change_key(change, caller.author());
        let key = Box::new(within(caller, Changes::Definitions, changed).await?);
        Ok(Reply::KeyMade { key, secret })
    }

    pub(super) async fn revoke_key(&self, caller: &Caller, id: KeyId) -> Result<Reply, ServiceError> {
        let changed = self.metadata.change_key(KeyChange::Revoke { id }, caller.author());
        within(caller, Changes::Definitions, changed).await.map(Box::new).map(Reply::Key)
    }

    fn after(&self, time: Ttl) -> Timestamp {
        let nanos = u128::from(self.clock.now().as_nanos()) + time.as_duration().as_nanos();
        Timestamp::saturating_from_nanos(nanos)
    }
}
