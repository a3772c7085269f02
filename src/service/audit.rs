//! The audit trail of everything: changes of definitions and keys, which the metadata store keeps, and, for
//! those who ask for them, what this server has refused lately.

use super::operation::{Audited, Reply};
use super::{Caller, Changes, PageRenderer, Service, ServiceError, within};
use crate::access::Refusal;
use crate::domain::page::AuditWalk;
use crate::domain::{Limit, Revision, Timestamp};
use crate::metadata::Page;
use crate::metadata::keys::AuditFilter;

/// The action that stands for refusals.
pub const REFUSE: &str = "refuse";

impl<R: PageRenderer> Service<R> {
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
        let page = match filter.action.as_deref() {
            // They are here whether or not the store is.
            Some(REFUSE) => self.refused(&filter, before, page_size),
            _ => {
                let asked = self.metadata.audit(filter, before.map(Revision), page_size);
                let Page { entries, more } = within(caller, Changes::Nothing, asked).await?;
                Page { entries: entries.into_iter().map(|entry| Audited::Change(Box::new(entry))).collect(), more }
            }
        };
        let last = page.entries.last().filter(|_| page.more);
        let next_page_token = last.map(|entry| {
            walk.token_after(match entry {
                Audited::Change(entry) => entry.revision().0,
                Audited::Refusal(refusal) => refusal.at.as_nanos(),
            })
        });
        Ok(Reply::Audit { entries: page.entries, next_page_token })
    }

    fn refused(&self, filter: &AuditFilter, before: Option<u64>, page_size: Limit) -> Page<Audited> {
        let before = before.map(|nanos| Timestamp::saturating_from_nanos(nanos.into()));
        let mut found = self.refusals.before(before);
        found.retain(|refusal| takes_in(filter, refusal));
        let more = found.len() > page_size.get();
        found.truncate(page_size.get());
        Page { entries: found.into_iter().map(Audited::Refusal).collect(), more }
    }
}

fn takes_in(filter: &AuditFilter, refusal: &Refusal) -> bool {
    filter.by.as_ref().is_none_or(|by| refusal.by == *by)
        && filter.target.as_deref().is_none_or(|target| refusal.operation == target)
        && filter.since.is_none_or(|since| refusal.last_at >= since)
        && filter.until.is_none_or(|until| refusal.at <= until)
}
