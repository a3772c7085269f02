//! Who sends a request, and whether they may ask for what its path names at all: before its body is looked
//! at. What the whole request asks for is decided on by the service.

use actix_web::http::header::{AUTHORIZATION, HeaderMap};

use super::problem::{ErrorCode, Problem};
use super::request::{Client, Peer};
use super::routes::Segments;
use super::{ApiState, host};
use crate::access::jwt::NoToken;
use crate::access::{Credentials, NoKey, Principal, Unidentified, decide};
use crate::service::{Descriptor, OperationId, Permission};

/// Tells who asks. It waits in one case only: where a token names a key that its issuer may have made since
/// its keys were read.
pub(super) async fn identify(
    state: &ApiState,
    operation: &Descriptor,
    headers: &HeaderMap,
    client: &Client,
) -> Result<Principal, Problem> {
    if is_for_anybody(state, operation) {
        return Ok(Principal::Anonymous);
    }
    if client.certificate.as_ref().is_some_and(|shown| !shown.holds()) {
        let detail = "the client certificate of this connection does not hold any more: connect again with another one";
        return Err(
            Problem::new(ErrorCode::Unauthenticated, detail).because("a certificate that does not hold any more")
        );
    }
    let credentials = credentials(headers, client);
    let identified = match state.access.identify(credentials) {
        Err(Unidentified::KeysWanted(issuer) | Unidentified::IssuerAway(issuer) | Unidentified::KeysTooOld(issuer)) => {
            // On the heap, so that it takes no room in the tasks of all requests.
            Box::pin(state.access.look_up(issuer)).await;
            state.access.identify(credentials)
        }
        identified => identified,
    };
    identified.map_err(refusal)
}

/// Whether they may ask for what the path names, now. A request counts among theirs whether or not they may:
/// else those who are refused could ask without end.
pub(super) fn admit(
    state: &ApiState,
    operation: &Descriptor,
    segments: &Segments<'_>,
    headers: &HeaderMap,
    client: &Client,
    principal: &Principal,
) -> Result<(), Problem> {
    if is_for_anybody(state, operation) {
        return Ok(());
    }
    // Refused requests are to be found by who sent them.
    let because_of = |problem: Problem| problem.because(principal.to_string());
    if let Some(limiter) = principal.limiter() {
        limiter.take_request().map_err(|limited| because_of(limited.into()))?;
    }
    let is_open = matches!(principal, Principal::Anonymous);
    if client.peer != Peer::Local && (is_open || !state.options.allowed_hosts.is_empty()) {
        host::check(headers, &state.options.allowed_hosts)?;
    }
    let decided = decide(principal, operation.permission, operation.resource([&segments[0], &segments[1]]));
    decided.map_err(|denied| because_of(denied.into()))
}

fn is_for_anybody(state: &ApiState, operation: &Descriptor) -> bool {
    operation.permission == Permission::Open || operation.id == OperationId::Metrics && state.options.metrics_are_open
}

/// What a request shows goes before what its connection has shown.
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

/// RFC 6750, section 2.1; schemes know no case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn refusal(unidentified: Unidentified) -> Problem {
    const HINT: &str = "send an API key or a token that holds: Authorization: Bearer …";
    let refused_because = |why: String| Problem::new(ErrorCode::Unauthenticated, HINT).because(why);
    let refused = |why: &str| refused_because(why.to_owned());
    match unidentified {
        Unidentified::NoCredentials => refused("no key"),
        Unidentified::Refused(NoKey::Malformed) => {
            let detail = "what was sent has not the form of an API key, or was mistyped: its checksum does not hold";
            Problem::new(ErrorCode::Unauthenticated, detail).because("no key's form")
        }
        // Nobody is told which of these it was but the log.
        Unidentified::Refused(NoKey::Expired) => refused("an expired key"),
        Unidentified::Refused(NoKey::Revoked) => refused("a revoked key"),
        Unidentified::Refused(NoKey::Unknown | NoKey::NotLoaded) => refused("an unknown key"),
        Unidentified::TokenRefused(why) => refused_because(why.to_string()),
        Unidentified::KeysWanted(_) => refused_because(NoToken::UnknownKey.to_string()),
        Unidentified::IssuerAway(_) => {
            Problem::new(ErrorCode::IssuerUnavailable, "the keys of the token's issuer cannot be read at present")
        }
        Unidentified::KeysTooOld(_) => {
            let detail =
                "the keys of the token's issuer could not be read for longer than access.jwt.keys_age_max_secs";
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
    fn a_token_is_taken_from_the_scheme_bearer_alone() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for bad in [&b"Basic abc"[..], b"abc", b"Bearer", b""] {
            assert_eq!(bearer(bad), None);
        }
    }
}
