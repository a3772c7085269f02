//! Repeats erasures, purges and revocations that a restored backup lacks: the entries of the former store's audit trail
//! that are not in this store's trail.

use liststore_contract::operations::list_audit::Audited;
use serde_json::Value as Json;

use super::bag::EntityName;
use super::bag_conditions::BagConditions;
use super::{Caller, Changes, Service, ServiceError, within};
use crate::access::Principal;
use crate::domain::{EntityId, EntityType, FeatureKey, JobId, KeyId, Limit, Timestamp};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Target, Task, TaskKind};
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::keys::{AuditFilter, KeyAction};

/// The outcome of one entry of the former trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// It was repeated.
    Done,
    /// This store has it, or holds nothing that it affects.
    Nothing,
    /// It is of a kind that is not repeated, such as a change of a definition.
    LeftOut,
}

impl Service {
    /// Repeats an entry of the former trail, unless this store's trail has it. Safe to repeat.
    ///
    /// A rotated key is revoked: its former secret would be valid again, and its present secret is unknown here.
    pub async fn repeat(&self, entry: &Audited) -> Result<Repeated, ServiceError> {
        let caller = Caller { principal: Principal::Local, ..Caller::default() };
        let is_key = [KeyAction::RevokeKey, KeyAction::RotateKey].iter().any(|kind| kind.as_str() == entry.action);
        let is_erasure = entry.action == ErasureAction::EraseEntity.as_str();
        let is_purge = entry.action == ErasureAction::Purge.as_str();
        if !(is_key || is_erasure || is_purge) {
            return Ok(Repeated::LeftOut);
        }
        if self.has_entry(&caller, entry).await? {
            return Ok(Repeated::Nothing);
        }
        if is_key {
            return self.revoke_again(&caller, entry).await;
        }
        if is_purge { self.purge_again(&caller, entry).await } else { self.erase_again(&caller, entry).await }
    }

    /// Whether this store's trail has the entry, which is then older than the backup.
    async fn has_entry(&self, caller: &Caller, entry: &Audited) -> Result<bool, ServiceError> {
        let at = Timestamp::parse(&entry.at).map_err(ServiceError::invalid("at"))?;
        let filter = AuditFilter {
            by: None,
            target: Some(entry.target.clone()),
            action: Some(entry.action.clone()),
            since: Some(at),
            until: Some(at),
        };
        let one = Limit::of_page(1).map_err(ServiceError::invalid("page_size"))?;
        let mut before = None;
        loop {
            let asked = self.metadata.audit(filter.clone(), before, one);
            let page = within(caller, Changes::Nothing, asked).await?;
            if !page.entries.is_empty() || page.next.is_none() {
                return Ok(!page.entries.is_empty());
            }
            before = page.next;
        }
    }

    async fn revoke_again(&self, caller: &Caller, entry: &Audited) -> Result<Repeated, ServiceError> {
        let id = entry.after.as_ref().and_then(|after| after["id"].as_str());
        let id = KeyId::new(id.unwrap_or_default()).map_err(ServiceError::invalid("after.id"))?;
        match self.revoke_key(caller, id, false).await {
            Ok(_) => Ok(Repeated::Done),
            // It was created after the backup.
            Err(ServiceError::Metadata(MetadataError::KeyNotFound(_))) => Ok(Repeated::Nothing),
            Err(error) => Err(error),
        }
    }

    async fn erase_again(&self, caller: &Caller, entry: &Audited) -> Result<Repeated, ServiceError> {
        // A refused erasure changed nothing. A conditional erasure counts only when it is done.
        if let Some(details) = &entry.after
            && (details["state"] == "refused" || details["state"] == "begun" && details["conditional"] == true)
        {
            return Ok(Repeated::Nothing);
        }
        let named = entry.target.strip_prefix("entity:").and_then(|named| named.split_once('/'));
        let (entity_type, entity_id) = named.unwrap_or_default();
        let entity_type = EntityType::new(entity_type).map_err(ServiceError::invalid("target"))?;
        let entity_id = EntityId::new(entity_id).map_err(ServiceError::invalid("target"))?;
        let entity = EntityName { entity_type, entity_id };
        self.erase_entity(caller, entity, BagConditions::default()).await?.into_complete()?;
        Ok(Repeated::Done)
    }

    async fn purge_again(&self, caller: &Caller, entry: &Audited) -> Result<Repeated, ServiceError> {
        let keys = entry.after.as_ref().and_then(|after| after["feature_keys"].as_array());
        let keys = keys.into_iter().flatten().filter_map(Json::as_str).filter_map(FeatureKey::parse);
        let keys: Vec<_> = keys.collect();
        // The purge of a dropped index, which this store may still have.
        let Some((feature, ..)) = keys.first().cloned() else { return Ok(Repeated::LeftOut) };
        let target = |(_, version, generation)| Target { version, generation };
        let targets = keys.into_iter().map(target).collect();
        let task = Task { kind: TaskKind::Purge, feature, targets, lists_per_second: None };
        let (target, details) = (entry.target.clone(), entry.after.clone().unwrap_or_default());
        let note = |job: JobId| {
            let mut details = details;
            details["job"] = job.to_string().into();
            Erasure { action: ErasureAction::Purge, target, details }
        };
        let is_new = self.jobs.repeat_noted(task, caller.author(), note).await?;
        Ok(if is_new { Repeated::Done } else { Repeated::Nothing })
    }
}
