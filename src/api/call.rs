//! A call: one request with its operation, and the state needed to read it.

use std::borrow::Cow;

use actix_web::http::header::{HeaderMap, HeaderValue};
use bytes::Bytes;
use liststore_contract::row::Row;
use serde::Serialize;

use super::json::json;
use super::problem::{Problem, status};
use super::request::Client;
use super::response::Response;
use super::{ApiState, headers, query};
use crate::access::{Principal, Reservation};
use crate::domain::{Author, EntityId, EntityType, FeatureId, FeatureName, JobId, KeyId, VersionLabel};
use crate::service::{Caller, EntityName, ListName};
use crate::wire::parameters::{Parameter, USER};

/// The largest number of variable segments of a path.
pub(crate) const VARIABLES_MAX: usize = 3;

/// The variable segments of a path, decoded, in the order of the path.
pub(crate) type Segments<'p> = [Cow<'p, str>; VARIABLES_MAX];

/// The result of a handler.
pub(crate) type HandlerResult = Result<Response, Problem>;

pub(crate) struct Call<'c> {
    pub state: &'c ApiState,
    pub operation: &'static Row,
    pub segments: Segments<'c>,
    pub query: Option<&'c str>,
    pub headers: &'c HeaderMap,
    pub client: &'c Client,
    pub principal: &'c Principal,
    /// Within the size limit, and of the media type that the operation takes. Empty if it takes none.
    pub body: Bytes,
    pub request_id: &'c HeaderValue,
}

impl<'c> Call<'c> {
    /// The values of the operation's parameters, in their order.
    pub fn query<const N: usize>(&self, parameters: &[Parameter; N]) -> Result<[Option<Cow<'c, str>>; N], Problem> {
        query::parse(self.query, parameters)
    }

    /// Does the same for parameters that may occur several times.
    pub fn repeated_query<const N: usize>(
        &self,
        parameters: &[Parameter; N],
    ) -> Result<[Vec<Cow<'c, str>>; N], Problem> {
        query::parse_repeated(self.query, parameters)
    }

    /// The caller and its time limit, if the operation uses them.
    pub fn caller(&self) -> Result<Caller, Problem> {
        // Health has no headers, so that probes are answered regardless of their headers.
        let timeout = if self.operation.headers.is_empty() { None } else { headers::requested_timeout(self.headers)? };
        let author = if self.operation.takes_header(&USER) { self.author()? } else { None };
        Ok(Caller { principal: self.principal.clone(), author, timeout, reservation: Reservation::default() })
    }

    /// The author of a change: the `Liststore-User` header or, for an unknown caller, its certificate.
    fn author(&self) -> Result<Option<Author>, Problem> {
        let named = headers::author(self.headers)?;
        if !matches!(self.principal, Principal::Anonymous) {
            return Ok(named);
        }
        let shown = || self.client.certificate.as_ref()?.names().first().and_then(|name| Author::new(name).ok());
        Ok(named.or_else(shown))
    }

    /// The list that the path and the parameter `version` name.
    pub fn list<'s>(&'s self, version: Option<Cow<'s, str>>) -> Result<ListName<'s>, Problem> {
        let [entity_type, feature, entity_id] = &self.segments;
        let entity_id = EntityId::new(entity_id).map_err(|invalid| Problem::from(invalid).at("entity_id"))?;
        Ok(ListName { entity_type, feature, version: version.unwrap_or_default(), entity_id })
    }

    /// The entity that the path of its bag names.
    pub fn entity(&self) -> Result<EntityName, Problem> {
        let entity_id = EntityId::new(&self.segments[1]).map_err(|invalid| Problem::from(invalid).at("entity_id"))?;
        Ok(EntityName { entity_type: self.entity_type()?, entity_id })
    }

    /// The entity type in the first variable segment of the path.
    pub fn entity_type(&self) -> Result<EntityType, Problem> {
        EntityType::new(&self.segments[0]).map_err(|invalid| Problem::from(invalid).at("entity_type"))
    }

    /// The feature that the path of a control-plane call names.
    pub fn feature_id(&self) -> Result<FeatureId, Problem> {
        let [_, name, _] = &self.segments;
        let entity_type = self.entity_type()?;
        let name = FeatureName::new(name).map_err(|invalid| Problem::from(invalid).at("name"))?;
        Ok(FeatureId { entity_type, name })
    }

    /// The version that the path of a control-plane call names.
    pub fn version_label(&self) -> Result<VersionLabel, Problem> {
        VersionLabel::new(&self.segments[2]).map_err(|invalid| Problem::from(invalid).at("version"))
    }

    /// The index that the path names after its entity type.
    pub fn index_name(&self) -> Result<VersionLabel, Problem> {
        VersionLabel::new(&self.segments[1]).map_err(|invalid| Problem::from(invalid).at("index"))
    }

    pub fn job_id(&self) -> Result<JobId, Problem> {
        JobId::parse(&self.segments[0]).map_err(|invalid| Problem::from(invalid).at("job_id"))
    }

    pub fn key_id(&self) -> Result<KeyId, Problem> {
        KeyId::new(&self.segments[0]).map_err(|invalid| Problem::from(invalid).at("key_id"))
    }

    /// The usual answer of the operation, without a body.
    pub fn response(&self) -> Response {
        Response::new(status(self.operation.replies[0].status))
    }

    /// The usual answer of the operation with this body.
    pub fn json(&self, body: &impl Serialize) -> HandlerResult {
        json(self.response(), body)
    }
}
