//! Replies of the service as HTTP answers.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, VARY};
use liststore_contract::operations::{create_key, get_key};

mod bags;
mod batch;
mod definitions;
mod erasure;
mod indexes;
mod jobs;
mod json;
mod pool;

pub(crate) use json::{json, json_text};

use super::call::{Call, HandlerResult};
use super::compression::BY_CODING;
use super::headers::has_already;
use super::lines;
use super::negotiation::{LINES, prefers_lines};
use super::problem::{Problem, status};
use super::response::Response;
use crate::access::{Principal, Refusal};
use crate::actors::AddOutcome;
use crate::domain::{PageToken, Scope, Timestamp, ValueType};
use crate::items::Count;
use crate::metadata::{self, HistoryEntry};
use crate::service::{Audited, Caller, Operation, REFUSE, RenderedPage, Reply, found};
use crate::telemetry::LogState;
use crate::wire;

/// Of answers that come in a form that the caller prefers.
const BY_FORM: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("Accept"));

impl Call<'_> {
    /// Has the operation carried out, and renders its reply.
    pub async fn execute(&self, caller: &Caller, operation: Operation<'_>) -> HandlerResult {
        let reply = self.state.service.execute(caller, operation).await?;
        Ok(render(self, reply)?.reserving(caller.reservation.take()))
    }
}

fn render(call: &Call<'_>, reply: Reply) -> HandlerResult {
    let (state, operation) = (call.state, call.operation);
    let mut response = Response::new(status(operation.replies[0].status));
    match reply {
        Reply::Items(page) => items(call, response, page),
        Reply::Added(AddOutcome { added, already_expired, mistaken_unit }) => {
            state.metrics.items_added.inc_by(added as u64);
            state.metrics.items_already_expired.inc_by(already_expired as u64);
            json(response, &wire::Added::new(added, already_expired, mistaken_unit))
        }
        Reply::Removed(removed) => {
            state.metrics.items_removed.inc_by(removed);
            json(response, &wire::Removed { removed })
        }
        Reply::EachPage(pages) => batch::pages(call, response, pages),
        Reply::EachAdded(outcomes) => batch::added(call, response, outcomes),
        Reply::Erased(receipt) => erasure::receipt(call, response, receipt),
        Reply::Job(job) => json(response, &jobs::body(*job)),
        Reply::Jobs { jobs: found, next_page_token } => {
            let jobs = found.into_iter().map(jobs::body).collect();
            json(response, &wire::JobPage { jobs, next_page_token: text(next_page_token) })
        }
        Reply::Counted(Count { items, exact }) => json(response, &wire::Counted { count: items, exact }),
        Reply::Contained { value_type, values } => {
            let results = values.iter().map(|(value, newest)| contained(value_type, value, *newest));
            json(response, &wire::Contained { results: results.collect::<Result<_, _>>()? })
        }
        Reply::Found { list, value_type, items, bytes_max } => {
            Ok(json_text(response, found(&list, value_type, &items, bytes_max)?))
        }
        Reply::Entities { entities, next_page_token } => {
            let entities = entities.iter().map(ToString::to_string).collect();
            json(response, &wire::EntityPage { entities, next_page_token: text(next_page_token) })
        }
        Reply::AllRemoved | Reply::BagDeleted => Ok(response),
        Reply::Bag(bag) => bags::bag(call, response, *bag),
        Reply::BagStored { entity, updated_at, created } => bags::stored(call, response, &entity, updated_at, created),
        Reply::EachBag(found) => bags::each(call, response, found),
        Reply::Features { of_bags, features, next_page_token } => {
            definitions::features(response, of_bags, &features, next_page_token)
        }
        Reply::Index(index) => indexes::index(call, response, &index),
        Reply::Indexes(found) => indexes::indexes(response, &found),
        Reply::IndexDeleted => Ok(response),
        Reply::FoundBags { entity_type, bags, next_page_token } => {
            bags::found(call, response, &entity_type, &bags, next_page_token)
        }
        Reply::Feature(feature) => definitions::feature(call, response, &feature),
        Reply::History { entries, next_page_token } => {
            let history = entries.into_iter().map(change).collect();
            json(response, &wire::HistoryPage { history, next_page_token: text(next_page_token) })
        }
        Reply::Version { feature, version } => definitions::version(call, response, &feature, &version),
        Reply::Deleted { items_expire_by } => {
            json(response, &wire::Deleted { items_expire_by: items_expire_by.to_string() })
        }
        Reply::Me(principal) => json(response, &me(&principal)),
        Reply::KeyMade { key, secret } => {
            if operation.is(&create_key::ROW) {
                let path = get_key::ROW.path_of(&[key.id.as_str()]);
                response = response.with_text(LOCATION, path)?;
            }
            // Nobody in between is to keep it.
            response.add(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            let key = wire::Key::new(&key, state.clock.now());
            json(response, &wire::KeyMade { token: secret.expose().to_owned(), key })
        }
        Reply::Key { key, created } => json(response, &wire::Key::with_created(&key, &created, state.clock.now())),
        Reply::Keys { keys, next_page_token } => {
            let now = state.clock.now();
            let keys = keys.iter().map(|key| wire::Key::new(key, now)).collect();
            json(response, &wire::KeyPage { keys, next_page_token: text(next_page_token) })
        }
        Reply::Audit { entries, next_page_token } => {
            let changes = entries.into_iter().map(audited).collect();
            json(response, &wire::AuditPage { changes, next_page_token: text(next_page_token) })
        }
        Reply::Log(LogState { filter, access }) => {
            json(response, &wire::LogState { filter, access: access.to_string() })
        }
        Reply::Pool(view) => json(response, &pool::body(&view)),
        Reply::Backup(backup) => {
            let items = backup.items;
            let body = wire::Backup {
                dir: backup.dir.display().to_string(),
                data_files: items.data_files,
                data_bytes: items.data_bytes,
                copied_files: items.copied_files,
                log_segments: items.log_segments,
                log_bytes: items.log_bytes,
                definitions: backup.definitions,
                seconds: backup.took.as_secs_f64(),
            };
            json(response, &body)
        }
    }
}

/// A page, in the form that the caller asks for, unless they have it.
fn items(call: &Call<'_>, response: Response, page: RenderedPage) -> HandlerResult {
    let in_lines = prefers_lines(call.headers);
    let RenderedPage { text, tag, items } = if in_lines { lines::of(&page)? } else { page };
    let has_already = has_already(call.headers, &tag)?;
    let (name, value) = BY_FORM;
    if has_already {
        let mut response = Response::new(StatusCode::NOT_MODIFIED).with_text(ETAG, tag)?.with(name, value);
        // What the page would have said, a cache is told with its confirmation too.
        if text.len() >= call.state.options.compression_bytes_min {
            let (name, value) = BY_CODING;
            response.add(name, value);
        }
        return Ok(response);
    }
    call.state.metrics.items_read.inc_by(items as u64);
    // Both forms say so: a cache that has one must not give it to those who ask for the other.
    let response = response.with_text(ETAG, tag)?.with(name, value);
    if in_lines {
        return Ok(response.with(CONTENT_TYPE, HeaderValue::from_static(LINES)).body(text));
    }
    Ok(json_text(response, text))
}

fn me(principal: &Principal) -> wire::Me {
    let kind = match principal {
        Principal::Anonymous => wire::PrincipalKind::Anonymous,
        Principal::Local => wire::PrincipalKind::Local,
        Principal::Known(_) => wire::PrincipalKind::Known,
    };
    let texts = |scopes: Vec<Scope>| scopes.iter().map(ToString::to_string).collect();
    let permissions = principal.permissions().into_iter();
    let permissions = permissions.map(|(permission, scopes)| (permission.name().to_owned(), texts(scopes))).collect();
    wire::Me { name: principal.to_string(), kind, permissions }
}

/// A value is written as a get writes it.
fn contained(value_type: ValueType, value: &[u8], newest: Option<Timestamp>) -> Result<wire::ContainedValue, Problem> {
    let mut text = Vec::new();
    let written = value_type.write_json(value, &mut text).map_err(|error| error.to_string());
    let raw = written.and_then(|()| serde_json::from_slice(&text).map_err(|error| error.to_string()));
    let value = raw.map_err(|error| Problem::internal(format!("cannot render a value: {error}")))?;
    Ok(wire::ContainedValue { value, timestamp: newest.map(|newest| newest.to_string()) })
}

fn text(token: Option<PageToken>) -> Option<String> {
    token.map(|token| token.as_str().to_owned())
}

fn change(entry: HistoryEntry) -> wire::Change {
    wire::Change {
        at: entry.at.to_string(),
        by: entry.by.as_str().to_owned(),
        on_behalf_of: entry.by.behalf().map(str::to_owned),
        action: action(entry.action).as_str().to_owned(),
        version: entry.version.map(|label| label.to_string()),
        before: entry.before,
        after: entry.after,
    }
}

fn audited(entry: Audited) -> wire::Audited {
    let entry = match entry {
        Audited::Change(entry) => *entry,
        Audited::Refusal(refusal) => return refused(refusal),
    };
    let (at, by, on_behalf_of) = (entry.at(), entry.by().as_str().to_owned(), entry.by().behalf().map(str::to_owned));
    let (action, target) = (entry.action().to_owned(), entry.target());
    let version = entry.version().map(ToString::to_string);
    let (before, after) = entry.states();
    wire::Audited { at: at.to_string(), by, on_behalf_of, action, target, version, before, after }
}

fn refused(refusal: Refusal) -> wire::Audited {
    let Refusal { at, last_at, count, by, operation, code, reason } = refusal;
    let after = serde_json::json!({"code": code, "reason": reason, "count": count, "last_at": last_at.to_string()});
    wire::Audited {
        at: at.to_string(),
        by,
        on_behalf_of: None,
        action: REFUSE.to_owned(),
        target: operation.to_owned(),
        version: None,
        before: None,
        after: Some(after),
    }
}

fn action(action: metadata::Action) -> wire::Action {
    match action {
        metadata::Action::CreateFeature => wire::Action::CreateFeature,
        metadata::Action::UpdateFeature => wire::Action::UpdateFeature,
        metadata::Action::DeleteFeature => wire::Action::DeleteFeature,
        metadata::Action::CreateVersion => wire::Action::CreateVersion,
        metadata::Action::UpdateVersion => wire::Action::UpdateVersion,
        metadata::Action::DeleteVersion => wire::Action::DeleteVersion,
        metadata::Action::CreateEntityType => wire::Action::CreateEntityType,
        metadata::Action::UpdateEntityType => wire::Action::UpdateEntityType,
        metadata::Action::DeleteEntityType => wire::Action::DeleteEntityType,
    }
}
