//! API keys.

use super::begun::{StepFailure, to_its_end};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::domain::{ApiKey, Invalid, KeyId, Timestamp, Ttl};
use crate::metadata::keys::KeyChange;
use crate::metadata::keys::lineage::created_by;

impl Service {
    /// Revokes a key and, on request, the keys that it created. The key itself is first, so that it creates no other.
    pub(crate) async fn revoke_key(
        &self,
        caller: &Caller,
        id: KeyId,
        created_keys: bool,
    ) -> Result<(ApiKey, Vec<ApiKey>), ServiceError> {
        let (metadata, by) = (self.metadata.clone(), caller.author());
        let revoking = async move {
            let key = metadata.change_key(KeyChange::Revoke { id }, by.clone()).await.map_err(StepFailure::AtFirst)?;
            let mut created = created_by(id, &metadata.keys().await.map_err(StepFailure::Begun)?);
            // A created key may create another one until it is revoked itself. Each round revokes at least one.
            while created_keys && !created.is_empty() {
                for key in &created {
                    metadata
                        .change_key(KeyChange::Revoke { id: key.id }, by.clone())
                        .await
                        .map_err(StepFailure::Begun)?;
                }
                created = created_by(id, &metadata.keys().await.map_err(StepFailure::Begun)?);
            }
            Ok((key, created))
        };
        within(caller, Changes::Definitions, to_its_end(revoking)).await
    }

    /// The longest lifetime that a caller may give to a key, if there is a bound. Refuses a longer one.
    pub(crate) fn lifetime_max(&self, caller: &Caller, asked: Option<Ttl>) -> Result<Option<Ttl>, ServiceError> {
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

    pub(crate) fn after(&self, time: Ttl) -> Timestamp {
        let nanos = u128::from(self.clock.now().as_nanos()) + time.as_duration().as_nanos();
        Timestamp::saturating_from_nanos(nanos)
    }
}
