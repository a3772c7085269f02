//! API keys as answers.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};

use super::super::call::{Call, HandlerResult};
use super::super::json::json;
use super::super::response::Response;
use crate::access::token::Secret;
use crate::domain::ApiKey;
use crate::wire::{Key, KeyMade};

/// A key with its new secret, which no intermediary must store.
pub(crate) fn key_made(call: &Call<'_>, response: Response, key: &ApiKey, secret: &Secret) -> HandlerResult {
    let response = response.with(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let key = Key::new(key, call.state.clock.now());
    json(response, &KeyMade { token: secret.expose().to_owned(), key })
}
