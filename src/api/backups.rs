//! Backups of the server's own data directory, for operators on its machine.

use std::path::PathBuf;

use actix_web::HttpResponse;

use super::call::{Answer, Call, json};
use super::headers::asked_timeout;
use super::object::Object;
use super::openapi::bodies;
use super::openapi::parameters::RequestHeaders;
use super::problem::{ErrorCode, Problem};
use crate::domain::Invalid;

/// What says that a request was passed on for somebody else, or sent by a page in a browser: then
/// it tells nothing that it comes from this machine.
const NOT_OF_THE_CALLER: [&str; 4] = ["Forwarded", "X-Forwarded-For", "Via", "Origin"];

/// Make a backup of the embedded stores
///
/// Only for callers on the server's machine, since it writes there. It has everything that was
/// acknowledged before the call. The answer comes when it is complete, which takes as long as the
/// disk needs; nothing that is half made ever stands under the directory's name. One backup at a
/// time; it goes on if the caller leaves.
#[utoipa::path(
    post,
    path = "/v1/backups",
    operation_id = "create_backup",
    tag = "operations",
    params(RequestHeaders),
    request_body = bodies::NewBackup,
    responses((status = 201, description = "The backup is there.", body = bodies::Backup)),
)]
pub(super) async fn create_backup(mut call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    // It does not end a backup, but is to be well-formed as everywhere.
    asked_timeout(call.headers)?;
    let body = call.body().await?;
    let object = Object::read(&body, &["dir"], &[])?;
    let dir = object.required("dir", absolute)?;
    check_local(&call)?;
    let made = call.state.backups.make(dir).await?;
    let items = made.items;
    let answer = bodies::Backup {
        dir: made.dir.display().to_string(),
        data_files: items.data_files,
        data_bytes: items.data_bytes,
        copied_files: items.copied_files,
        log_segments: items.log_segments,
        log_bytes: items.log_bytes,
        definitions: made.definitions,
        seconds: made.took.as_secs_f64(),
    };
    json(HttpResponse::Created(), &answer)
}

fn absolute(text: &str) -> Result<PathBuf, Invalid> {
    let dir = PathBuf::from(text);
    if !dir.is_absolute() || text.contains('\0') {
        return Err(Invalid::argument("dir must be an absolute path on the server's machine"));
    }
    Ok(dir)
}

fn check_local(call: &Call<'_>) -> Result<(), Problem> {
    let local = call.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
    let direct = NOT_OF_THE_CALLER.iter().all(|header| !call.headers.contains_key(*header));
    if local && direct {
        return Ok(());
    }
    let detail = "a backup is written on the server's own machine: ask for it there, on a loopback address";
    Err(Problem::new(ErrorCode::LocalOnly, detail))
}
