//! The parameters of operations, as the OpenAPI document describes them. They are read by
//! `query.rs`, `headers.rs` and `routes.rs`, which refuse more precisely than a framework would.

use utoipa::IntoParams;

use super::bodies::{Label, Millis, Name, TimestampText};

/// Which list.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the path")]
pub struct ListPath {
    /// The kind of the entity.
    #[param(inline, example = "user")]
    entity_type: Name,
    /// The feature's name.
    #[param(inline, example = "story_presented")]
    feature: Name,
    /// The entity: 1 to 512 bytes of UTF-8 without NUL, not `.` or `..`, percent-encoded.
    #[param(min_length = 1, max_length = 512, pattern = r"^(?!\.{1,2}$)[^\u0000]+$", example = "u-123")]
    entity_id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub struct VersionQuery {
    /// The feature version; empty, or left out, is the default one.
    #[param(inline, required = false, example = "v2")]
    version: Label,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub struct GetItemsQuery {
    /// The feature version; empty, or left out, is the default one.
    #[param(inline, required = false, example = "v2")]
    version: Label,
    /// Inclusive: RFC 3339, or nanoseconds since the Unix epoch.
    #[param(inline, required = false, example = "2024-08-29T16:44:05.43Z")]
    min_timestamp: TimestampText,
    /// Inclusive: RFC 3339, or nanoseconds since the Unix epoch.
    #[param(inline, required = false, example = "2024-08-30T00:00:00Z")]
    max_timestamp: TimestampText,
    /// At most so many items; 100 if left out. May change during a walk.
    #[param(required = false, minimum = 1, maximum = 10_000, example = 50)]
    limit: u32,
    /// Goes on after the page that gave it as `next_page_token`, with the same list and bounds.
    #[param(required = false, min_length = 1)]
    page_token: String,
}

/// Which feature.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the path")]
pub struct FeaturePath {
    #[param(inline, example = "user")]
    entity_type: Name,
    #[param(inline, example = "story_presented")]
    name: Name,
}

/// Which version.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the path")]
pub struct VersionPath {
    #[param(inline, example = "user")]
    entity_type: Name,
    #[param(inline, example = "story_presented")]
    name: Name,
    /// The label, percent-encoded; empty (the path ends with a slash) is the default version.
    #[param(inline, example = "v2")]
    version: Label,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub struct ListFeaturesQuery {
    /// Only features of this entity type.
    #[param(inline, required = false, example = "user")]
    entity_type: Name,
    /// Only features with this text in their name, description or owner; ASCII case is ignored.
    #[param(required = false, min_length = 1, example = "story")]
    q: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub struct PageQuery {
    /// At most so many entries; 100 if left out.
    #[param(required = false, minimum = 1, maximum = 1_000, example = 50)]
    page_size: u32,
    /// Goes on after the page that gave it as `next_page_token`.
    #[param(required = false, min_length = 1)]
    page_token: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub struct RequestHeaders {
    /// 1 to 128 visible ASCII characters; else a new one is made. Returned with the answer, and on
    /// every line that the log has of the request.
    #[param(rename = "X-Request-Id", required = false)]
    request_id: String,
    /// Shortens the operation's deadline, in milliseconds; never lengthens it.
    #[param(rename = "Liststore-Timeout-Ms", inline, required = false, example = 500)]
    timeout_ms: Millis,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub struct ChangeHeaders {
    /// Who asks, for the audit trail.
    #[param(rename = "Liststore-User", required = false, min_length = 1, max_length = 128, example = "alice")]
    user: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub struct ConditionHeaders {
    /// Only if the present entity tag is one of these (RFC 9110, section 13.1.1).
    #[param(rename = "If-Match", required = false, example = "\"17\"")]
    if_match: String,
}
