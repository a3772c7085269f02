//! A call: one request with its operation found, and what is needed to read it.

use std::borrow::Cow;

use actix_web::http::header::{HeaderMap, HeaderValue};
use bytes::Bytes;
use liststore_contract::row::Row;

use super::body::RequestBody;
use super::problem::Problem;
use super::request::Client;
use super::response::Response;
use super::{ApiState, headers, query};
use crate::access::{Principal, Reservation};
use crate::domain::{Author, EntityId, EntityType, FeatureId, FeatureName, VersionLabel};
use crate::service::{Caller, ListName};
use crate::wire::parameters::{Parameter, USER};

/// The most variable segments of a path.
pub(crate) const VARIABLES_MAX: usize = 3;

/// The variable segments of a path, decoded, in the order of the path.
pub(crate) type Segments<'p> = [Cow<'p, str>; VARIABLES_MAX];

/// What a handler returns.
pub(crate) type HandlerResult = Result<Response, Problem>;

pub(crate) struct Call<'c> {
    pub state: &'c ApiState,
    pub operation: &'static Row,
    pub segments: Segments<'c>,
    pub query: Option<&'c str>,
    pub headers: &'c HeaderMap,
    pub client: &'c Client,
    pub principal: &'c Principal,
    pub body: &'c mut RequestBody,
    pub request_id: &'c HeaderValue,
}

impl<'c> Call<'c> {
    /// The values of the operation's parameters, in their order.
    pub fn query<const N: usize>(&self, parameters: &[Parameter; N]) -> Result<[Option<Cow<'c, str>>; N], Problem> {
        query::parse(self.query, parameters)
    }

    /// The same where some parameters may be given several times.
    pub fn repeated_query<const N: usize>(
        &self,
        parameters: &[Parameter; N],
    ) -> Result<[Vec<Cow<'c, str>>; N], Problem> {
        query::parse_repeated(self.query, parameters)
    }

    /// The body, which is no longer than any may be, and is of the media type that the operation takes.
    pub async fn body(&mut self) -> Result<Bytes, Problem> {
        self.body.take().await
    }

    /// Who asks, and how long they wait: as far as the operation has a use for it.
    pub fn caller(&self) -> Result<Caller, Problem> {
        let timeout = headers::asked_timeout(self.headers)?;
        let author = if self.operation.takes_header(&USER) { self.author()? } else { None };
        Ok(Caller { principal: self.principal.clone(), author, timeout, reservation: Reservation::default() })
    }

    /// Who asks for a change: as they say or, where nobody knows who they are, as their certificate does.
    fn author(&self) -> Result<Option<Author>, Problem> {
        let said = headers::author(self.headers)?;
        if !matches!(self.principal, Principal::Anonymous) {
            return Ok(said);
        }
        let shown = || self.client.certificate.as_ref()?.names().first().and_then(|name| Author::new(name).ok());
        Ok(said.or_else(shown))
    }

    /// The entity that the path of a list names.
    pub fn entity_id(&self) -> Result<EntityId, Problem> {
        EntityId::new(&self.segments[2]).map_err(|invalid| Problem::from(invalid).at("entity_id"))
    }

    /// The list of an entity that the path and the parameter `version` name.
    pub fn list<'s>(&'s self, entity_id: EntityId, version: Option<&'s str>) -> ListName<'s> {
        let [entity_type, feature, _] = &self.segments;
        ListName { entity_type, feature, version: version.unwrap_or_default(), entity_id }
    }

    /// The entity type with which the variable segments of the path begin.
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
}
