//! Replies with indexes, and with the bags that an index finds.

use actix_web::http::header::ETAG;

use super::super::call::HandlerResult;
use super::super::headers::etag;
use super::super::json::json;
use super::super::response::Response;
use crate::domain::index::Pointer;
use crate::metadata::jobs::TaskKind;
use crate::service::IndexView;
use crate::wire;

pub(crate) fn index(mut response: Response, index: &IndexView) -> HandlerResult {
    if let Some(definition) = &index.definition {
        response = response.with_text(ETAG, etag(definition.revision))?;
    }
    json(response, &index_shown(index))
}

pub(crate) fn index_shown(index: &IndexView) -> wire::Index {
    let IndexView { name, definition, state, job, counted, lag } = index;
    let spec = definition.as_ref().and_then(|version| version.index.as_ref()).map(|index| &index.spec);
    let text = |pointer: &Pointer| pointer.as_str().to_owned();
    let built = job.as_ref().filter(|job| job.task.kind == TaskKind::BuildIndex);
    let created_at = definition.as_ref().map(|version| version.created_at).or(job.as_ref().map(|job| job.created_at));
    wire::Index {
        name: name.to_string(),
        properties: spec.map(|spec| spec.properties().iter().map(text).collect()).unwrap_or_default(),
        order_by: spec.and_then(|spec| spec.order_by()).map(text),
        state: state.as_str().to_owned(),
        bags_done: built.map(|job| job.progress.lists),
        entries: counted.map(|(entries, _)| entries),
        entries_counted_at: counted.map(|(_, counted_at)| counted_at.to_string()),
        lag_seconds: lag.map(|lag| lag.as_secs_f64()),
        bags_left_out: built.map(|job| job.progress.left_out),
        job_id: job.as_ref().map(|job| job.id.to_string()),
        problem: job.as_ref().and_then(|job| job.problem.clone()),
        created_at: created_at.unwrap_or_default().to_string(),
    }
}
