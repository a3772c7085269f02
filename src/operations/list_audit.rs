//! Read the audit trail.

use std::borrow::Cow;

use liststore_contract::operations::list_audit::{AuditPage, Audited, QUERY, ROW};
use liststore_contract::row::Row;
use serde_json::json;

use super::OPERATIONS;
use crate::access::Refusal;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::{moment, page_size};
use crate::api::reply;
use crate::domain::page::AuditWalk;
use crate::domain::{Limit, Revision, Timestamp};
use crate::metadata;
use crate::metadata::keys::erasures::ErasureAction;
use crate::metadata::keys::server_changes::ServerAction;
use crate::metadata::keys::{self, AuditEntry, AuditFilter};
use crate::service::{AROUND_BYTES, Caller, Changes, Listed, Service, ServiceError, end_early, json_bytes, within};
use crate::wire::Action;
use crate::wire::parameters::{AUDIT_ACTION, SINCE, UNTIL};

/// The action of refusals.
const REFUSE: &str = "refuse";

/// Read the audit trail, newest first.
pub struct ListAudit<'r> {
    filter: AuditFilter,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListAudit<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListAudit<'r>;
    type Reply = Listed<TrailEntry>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListAudit<'r>, Problem> {
        let [by, target, action, since, until, size, page_token] = call.query(&QUERY)?;
        let filter = AuditFilter {
            by: by.map(Into::into),
            target: target.map(Into::into),
            action: action.map(Into::into),
            since: moment(&SINCE, since.as_deref())?,
            until: moment(&UNTIL, until.as_deref())?,
        };
        if filter.action.as_deref().is_some_and(|action| !is_action(action)) {
            let detail = "no change has this action: use the name of an operation that changes something, such as \
                          create_key, or purge, restore_backup or refuse";
            return Err(Problem::argument(AUDIT_ACTION.name, detail));
        }
        if filter.since.zip(filter.until).is_some_and(|(since, until)| since > until) {
            return Err(Problem::argument(SINCE.name, "since must not be after until"));
        }
        Ok(ListAudit { filter, page_size: page_size(size.as_deref())?, page_token })
    }

    async fn run(service: &Service, caller: &Caller, request: ListAudit<'_>) -> Result<Self::Reply, ServiceError> {
        let ListAudit { filter, page_size, page_token } = request;
        let (since, until) = (filter.since, filter.until);
        let texts = [filter.by.clone(), filter.target.clone(), filter.action.clone()];
        let walk = AuditWalk { texts: texts.each_ref().map(|text| text.as_deref()), since, until };
        let before = page_token.map(|token| walk.resume(token.as_ref())).transpose();
        let before = before.map_err(ServiceError::invalid("page_token"))?;
        let (entries, next) = match filter.action.as_deref() {
            // They are here whether or not the store is.
            Some(REFUSE) => refused(service, &filter, before, page_size),
            _ => {
                let asked = service.metadata.audit(filter, before.map(Revision), page_size);
                let keys::AuditPage { mut entries, mut next } = within(caller, Changes::Nothing, asked).await?;
                let is_cut = end_early(&mut entries, service.options.page_bytes_max, |entry| {
                    AROUND_BYTES + json_bytes(&entry.states_shown())
                });
                if is_cut {
                    next = entries.last().map(AuditEntry::revision);
                }
                let entries = entries.into_iter().map(|entry| TrailEntry::Change(Box::new(entry))).collect();
                (entries, next.map(|next| next.0))
            }
        };
        Ok((entries, next.map(|next| walk.token_after(next))))
    }

    fn reply(call: &Call<'_>, (entries, next_page_token): Self::Reply) -> HandlerResult {
        let changes = entries.into_iter().map(shown).collect();
        call.json(&AuditPage { changes, next_page_token: reply::text(next_page_token) })
    }
}

/// Whether entries can have this action. Actions are names of operations, apart from a few that are none.
fn is_action(name: &str) -> bool {
    let others = [REFUSE, ErasureAction::Purge.as_str(), ServerAction::RESTORE_BACKUP.as_str()];
    others.contains(&name)
        || metadata::Action::ALL.iter().any(|action| action.as_str() == name)
        || OPERATIONS.iter().any(|of| of.row.effect.writes() && of.row.name == name)
}

/// An entry of the audit trail.
pub enum TrailEntry {
    Change(Box<AuditEntry>),
    Refusal(Refusal),
}

/// The refusals before a moment, and the moment before which more exist.
fn refused(
    service: &Service,
    filter: &AuditFilter,
    before: Option<u64>,
    page_size: Limit,
) -> (Vec<TrailEntry>, Option<u64>) {
    let before = before.map(|nanos| Timestamp::saturating_from_nanos(nanos.into()));
    let mut found = service.refusals.before(before);
    found.retain(|refusal| takes_in(filter, refusal));
    let more = found.len() > page_size.get();
    found.truncate(page_size.get());
    let next = found.last().filter(|_| more).map(|last| last.at.as_nanos());
    (found.into_iter().map(TrailEntry::Refusal).collect(), next)
}

fn takes_in(filter: &AuditFilter, refusal: &Refusal) -> bool {
    filter.by.as_ref().is_none_or(|by| refusal.by == *by)
        && filter.target.as_deref().is_none_or(|target| refusal.operation == target)
        && filter.since.is_none_or(|since| refusal.last_at >= since)
        && filter.until.is_none_or(|until| refusal.at <= until)
}

fn shown(entry: TrailEntry) -> Audited {
    let entry = match entry {
        TrailEntry::Change(entry) => *entry,
        TrailEntry::Refusal(refusal) => return refusal_shown(refusal),
    };
    let (at, by, on_behalf_of) = (entry.at(), entry.by().as_str().to_owned(), entry.by().behalf().map(str::to_owned));
    let (action, target) = (entry.action().to_owned(), entry.target());
    let label = entry.version().map(ToString::to_string);
    let is_of_index = [Action::CreateIndex, Action::UpdateIndex, Action::DeleteIndex]
        .iter()
        .any(|of_index| of_index.as_str() == action);
    let (version, index) = if is_of_index { (None, label) } else { (label, None) };
    let (before, after) = entry.states();
    Audited { at: at.to_string(), by, on_behalf_of, action, target, version, index, before, after }
}

fn refusal_shown(refusal: Refusal) -> Audited {
    let Refusal { at, last_at, count, by, operation, code, reason } = refusal;
    let after = json!({"code": code, "reason": reason, "count": count, "last_at": last_at.to_string()});
    Audited {
        at: at.to_string(),
        by,
        on_behalf_of: None,
        action: REFUSE.to_owned(),
        target: operation.to_owned(),
        version: None,
        index: None,
        before: None,
        after: Some(after),
    }
}
