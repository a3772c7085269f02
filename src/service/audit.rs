//! The audit trail of everything: changes of definitions and keys, which the metadata store keeps, and, for
//! those who ask for them, what this server has refused lately.

use super::operation::{Audited, Reply};
use super::page_end::{AROUND_BYTES, end_early, json_bytes};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::access::Refusal;
use crate::domain::page::AuditWalk;
use crate::domain::{Limit, Revision, Timestamp};
use crate::metadata::keys::{AuditEntry, AuditFilter, AuditPage};

/// The action that stands for refusals.
pub const REFUSE: &str = "refuse";

impl Service {
    /// Newest first.
    pub(super) async fn list_audit(
        &self,
        caller: &Caller,
        filter: AuditFilter,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
        let (since, until) = (filter.since, filter.until);
        let texts = [filter.by.clone(), filter.target.clone(), filter.action.clone()];
        let walk = AuditWalk { texts: texts.each_ref().map(|text| text.as_deref()), since, until };
        let before = page_token.map(|token| walk.resume(token.as_ref())).transpose();
        let before = before.map_err(ServiceError::invalid("page_token"))?;
        let (entries, next) = match filter.action.as_deref() {
            // They are here whether or not the store is.
            Some(REFUSE) => self.refused(&filter, before, page_size),
            _ => {
                let asked = self.metadata.audit(filter, before.map(Revision), page_size);
                let AuditPage { mut entries, mut next } = within(caller, Changes::Nothing, asked).await?;
                let is_cut = end_early(&mut entries, self.options.page_bytes_max, |entry| {
                    AROUND_BYTES + json_bytes(&entry.states_shown())
                });
                if is_cut {
                    next = entries.last().map(AuditEntry::revision);
                }
                let entries = entries.into_iter().map(|entry| Audited::Change(Box::new(entry))).collect();
                (entries, next.map(|next| next.0))
            }
        };
        Ok(Reply::Audit { entries, next_page_token: next.map(|next| walk.token_after(next)) })
    }

    /// What was refused before a moment, and before which one others were.
    fn refused(&self, filter: &AuditFilter, before: Option<u64>, page_size: Limit) -> (Vec<Audited>, Option<u64>) {
        let before = before.map(|nanos| Timestamp::saturating_from_nanos(nanos.into()));
        let mut found = self.refusals.before(before);
        found.retain(|refusal| takes_in(filter, refusal));
        let more = found.len() > page_size.get();
        found.truncate(page_size.get());
        let next = found.last().filter(|_| more).map(|last| last.at.as_nanos());
        (found.into_iter().map(Audited::Refusal).collect(), next)
    }
}

fn takes_in(filter: &AuditFilter, refusal: &Refusal) -> bool {
    filter.by.as_ref().is_none_or(|by| refusal.by == *by)
        && filter.target.as_deref().is_none_or(|target| refusal.operation == target)
        && filter.since.is_none_or(|since| refusal.last_at >= since)
        && filter.until.is_none_or(|until| refusal.at <= until)
}
