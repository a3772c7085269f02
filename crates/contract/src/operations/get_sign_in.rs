//! Get the console's sign-in options.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Type};

pub static ROW: Row = Row {
    name: "get_sign_in",
    summary: "Get the console's sign-in options",
    description: "The identity providers with a client for the console, if any.",
    group: Group::Access,
    permission: Permission::Open,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/sign-in",
    replies: &[json(200, "The providers.", Type::of::<SignIn>())],
    errors: &[&[ErrorCode::InvalidArgument, ErrorCode::Internal, ErrorCode::Overloaded]],
    ..Row::DEFAULT
};

/// Ways to sign in to the console other than with an API key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct SignIn {
    pub providers: Vec<IdentityProvider>,
}

/// An identity provider with a public client for the console (OpenID Connect, authorization code with PKCE).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct IdentityProvider {
    /// The issuer URL. Its metadata is at `/.well-known/openid-configuration` below it.
    pub issuer: String,
    /// The display name, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub label: Option<String>,
    pub client_id: String,
    /// Scopes, separated by spaces.
    pub scope: String,
    /// Which of its tokens this server accepts: access_token or id_token.
    pub token: String,
}
