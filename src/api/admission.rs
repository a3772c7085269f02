//! Decides by its head whether the server reads a request's body. The head names the caller, the operation and the form
//! of the body. Permission is decided only here, by the operation's row and its path. An operation whose body names the
//! resources decides on each of them when it runs.

use actix_web::http::header::{self, AUTHORIZATION, HeaderMap};
use liststore_contract::operations::metrics;
use liststore_contract::permission::Permission;
use liststore_contract::row::{Group, Row};

use super::body::{BodyKind, Lack, check_media_type, too_large};
use super::call::Segments;
use super::problem::{ErrorCode, Problem};
use super::request::{Client, Framing, Peer, RequestHead};
use super::{ApiState, host, origin};
use crate::access::jwt::NoToken;
use crate::access::{Credentials, NoKey, Principal, Unidentified, decide};
use crate::wire::parameters::{IF_MATCH, IF_NONE_MATCH};

/// Decides on the head of a request for an operation, and identifies the caller.
///
/// The checks run in this order: the server's own lack, the address, the site, the caller, the limits, the permission,
/// the body. A denied request counts against the caller's limits too. Otherwise a caller could send such requests
/// without end.
pub(crate) async fn of_head(
    state: &ApiState,
    operation: &'static Row,
    segments: &Segments<'_>,
    head: &RequestHead<'_>,
    lack: Option<Lack>,
) -> (Principal, Result<(), Problem>) {
    let RequestHead { method, headers, client, .. } = *head;
    // An overloaded server does not look up the caller.
    let taken = lack.map_or(Ok(()), |lack| Err(lack.problem()));
    let offered = taken.and_then(|()| offered(state, operation, client.peer));
    let identified = match offered.and_then(|()| origin::check(method, headers, &state.options.allowed_origins)) {
        Ok(()) => identify(state, operation, headers, client).await,
        Err(problem) => Err(problem),
    };
    match identified {
        Ok(principal) => {
            let admitted = admit(state, operation, segments, headers, client, &principal);
            let admitted = admitted.and_then(|()| check_body(head, operation, state.options.body_bytes_max));
            let admitted = admitted.and_then(|()| check_conditions(headers, operation));
            (principal, admitted)
        }
        Err(problem) => (Principal::Anonymous, Err(problem)),
    }
}

/// Refuses an operation that another address serves.
fn offered(state: &ApiState, operation: &'static Row, peer: Peer) -> Result<(), Problem> {
    let is_administration = operation.group == Group::Operations || operation.is(&metrics::ROW);
    match peer {
        Peer::Administration(_) if !is_administration && operation.group != Group::Health => Err(Problem::new(
            ErrorCode::NotFound,
            "this address serves administration only: use the address of http.listen",
        )),
        Peer::Network(_) if is_administration && state.options.administration_is_apart => {
            Err(Problem::new(ErrorCode::NotFound, "this operation is served only at the address of admin.listen"))
        }
        _ => Ok(()),
    }
}

/// Identifies the caller. It waits in one case only: a token names a key that its issuer may have made after its keys
/// were read.
async fn identify(
    state: &ApiState,
    operation: &'static Row,
    headers: &HeaderMap,
    client: &Client,
) -> Result<Principal, Problem> {
    if is_public(state, operation) {
        return Ok(Principal::Anonymous);
    }
    check_certificate(client)?;
    let credentials = credentials(headers, client);
    let identified = match state.access.identify(credentials) {
        Err(Unidentified::KeysWanted(issuer) | Unidentified::IssuerAway(issuer) | Unidentified::KeysTooOld(issuer)) => {
            // Boxed, so that it takes no space in the tasks of all requests.
            Box::pin(state.access.look_up(issuer)).await;
            state.access.identify(credentials)
        }
        identified => identified,
    };
    identified.map_err(refusal)
}

/// Identifies the caller again once the body has arrived, and decides on the permission again. The key may have been
/// revoked, or the token may have expired. `None`: the operation is for any caller.
pub(crate) fn again(
    state: &ApiState,
    operation: &'static Row,
    segments: &Segments<'_>,
    head: &RequestHead<'_>,
) -> Result<Option<Principal>, Problem> {
    if is_public(state, operation) {
        return Ok(None);
    }
    check_certificate(head.client)?;
    let principal = state.access.identify(credentials(head.headers, head.client)).map_err(refusal)?;
    permit(operation, segments, &principal)?;
    Ok(Some(principal))
}

/// Refuses a connection whose certificate was revoked or has expired since the handshake.
fn check_certificate(client: &Client) -> Result<(), Problem> {
    if client.certificate.as_ref().is_none_or(|shown| shown.holds()) {
        return Ok(());
    }
    let detail = "the client certificate of this connection is no longer valid: reconnect with a valid one";
    Err(Problem::new(ErrorCode::Unauthenticated, detail).with_cause("certificate that is no longer valid"))
}

/// Whether the caller may send this request for the resources of its path now.
fn admit(
    state: &ApiState,
    operation: &'static Row,
    segments: &Segments<'_>,
    headers: &HeaderMap,
    client: &Client,
    principal: &Principal,
) -> Result<(), Problem> {
    if is_public(state, operation) {
        return Ok(());
    }
    // The log finds refused requests by their caller.
    let because_of = |problem: Problem| problem.with_cause(principal.to_string());
    if let Some(limiter) = principal.limiter() {
        limiter.take_request().map_err(|limited| because_of(limited.into()))?;
        if operation.counts_items {
            limiter.check_items().map_err(|limited| because_of(limited.into()))?;
        }
    }
    let is_open = matches!(principal, Principal::Anonymous);
    if client.peer != Peer::Local && (is_open || !state.options.allowed_hosts.is_empty()) {
        host::check(headers, &state.options.allowed_hosts)?;
    }
    permit(operation, segments, principal)
}

/// Whether the caller has the permission of an operation for the resources of its path.
fn permit(operation: &'static Row, segments: &Segments<'_>, principal: &Principal) -> Result<(), Problem> {
    let decided = decide(principal, operation.permission, operation.resource([&segments[0], &segments[1]]));
    decided.map_err(|denied| Problem::from(denied).with_cause(principal.to_string()))
}

/// Refuses a body that the operation does not take, and a head without a body where the operation needs one.
fn check_body(head: &RequestHead<'_>, operation: &'static Row, bytes_max: usize) -> Result<(), Problem> {
    if head.expects_unknown {
        let detail = "Expect: only 100-continue is supported; remove the header";
        return Err(Problem::new(ErrorCode::ExpectationFailed, detail));
    }
    if matches!(head.framing, Framing::Length(length) if length > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    if operation.request.is_none() {
        return Ok(());
    }
    if head.framing == Framing::Absent {
        let detail = "the request body is missing: send one with Content-Length or chunked";
        return Err(Problem::new(ErrorCode::LengthRequired, detail));
    }
    check_media_type(head.headers, if operation.takes_merge_patch { BodyKind::MergePatch } else { BodyKind::Json })
}

/// Refuses a condition that a write does not know. Ignored, the write would be done whether or not it holds.
fn check_conditions(headers: &HeaderMap, operation: &'static Row) -> Result<(), Problem> {
    if !operation.effect.writes() {
        return Ok(());
    }
    for (name, parameter) in [(header::IF_MATCH, &IF_MATCH), (header::IF_NONE_MATCH, &IF_NONE_MATCH)] {
        if headers.contains_key(name) && !operation.takes_header(parameter) {
            let field = parameter.name;
            return Err(Problem::argument(
                field,
                format!("this operation does not support {field}: remove the header"),
            ));
        }
    }
    Ok(())
}

/// Whether any caller may use an operation, so that no identification is necessary.
pub(crate) fn is_public(state: &ApiState, operation: &'static Row) -> bool {
    operation.permission == Permission::Open || operation.is(&metrics::ROW) && state.options.metrics_are_open
}

/// Credentials in the request take precedence over the connection's certificate.
fn credentials<'c>(headers: &'c HeaderMap, client: &'c Client) -> Credentials<'c> {
    if client.peer == Peer::Local {
        return Credentials::Local;
    }
    let mut values = headers.get_all(AUTHORIZATION);
    match (values.next(), values.next()) {
        (None, _) => client.identity.as_ref().map_or(Credentials::None, Credentials::Certificate),
        (Some(value), None) => bearer(value.as_bytes()).map_or(Credentials::Unreadable, Credentials::Bearer),
        (Some(_), Some(_)) => Credentials::Unreadable,
    }
}

/// RFC 6750, section 2.1. Schemes are case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn refusal(unidentified: Unidentified) -> Problem {
    const HINT: &str = "send a valid API key or token: Authorization: Bearer …";
    let refused_because = |why: String| Problem::new(ErrorCode::Unauthenticated, HINT).with_cause(why);
    let refused = |why: &str| refused_because(why.to_owned());
    match unidentified {
        Unidentified::NoCredentials => refused("no key"),
        Unidentified::Refused(NoKey::Malformed) => {
            let detail = "malformed API key: checksum mismatch";
            Problem::new(ErrorCode::Unauthenticated, detail).with_cause("malformed key")
        }
        // Only the log contains which reason applied.
        Unidentified::Refused(NoKey::Expired) => refused("expired key"),
        Unidentified::Refused(NoKey::Revoked) => refused("revoked key"),
        Unidentified::Refused(NoKey::Unknown | NoKey::NotLoaded) => refused("unknown key"),
        Unidentified::TokenRefused(why) => refused_because(why.to_string()),
        Unidentified::KeysWanted(_) => refused_because(NoToken::UnknownKey.to_string()),
        Unidentified::IssuerAway(_) => {
            Problem::new(ErrorCode::IssuerUnavailable, "the signing keys of the token's issuer are unavailable")
        }
        Unidentified::KeysTooOld(_) => {
            let detail = "the signing keys of the token's issuer are older than access.jwt.keys_age_max_secs and \
                          cannot be refreshed";
            Problem::new(ErrorCode::IssuerUnavailable, detail)
        }
        Unidentified::Unknowable => {
            Problem::new(ErrorCode::MetadataUnavailable, "the API keys have not been loaded yet")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheme_bearer_carries_a_token() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for bad in [&b"Basic abc"[..], b"abc", b"Bearer", b""] {
            assert_eq!(bearer(bad), None);
        }
    }
}
