//! Requests by the table of operations: it has each operation's method and path, and whether a request can be
//! repeated.

use std::time::Duration;

use bytes::Bytes;
use liststore_contract::domain::{EntityId, FeatureId, VersionLabel};
use liststore_contract::row::{Method, Row};
use liststore_contract::wire::parameters::Parameter;
use serde::Serialize;

use super::error::ClientError;

/// Above any deadline that a server has for an operation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request, with the path below the server's URL.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    /// The variable segments of the path.
    pub variables: Vec<String>,
    pub query: Vec<(&'static str, String)>,
    pub body: Option<Bytes>,
    pub if_match: Option<String>,
    /// Only if there is nothing yet.
    pub if_none: bool,
    /// Doing it twice is as good as doing it once.
    pub repeatable: bool,
    pub timeout: Duration,
}

impl Request {
    /// A request for an operation, with the variable segments of its path.
    pub fn new(operation: &'static Row, variables: &[&str]) -> Self {
        Self {
            method: operation.method,
            path: operation.path_of(variables),
            variables: variables.iter().map(|&variable| variable.to_owned()).collect(),
            query: Vec::new(),
            body: None,
            if_match: None,
            if_none: false,
            repeatable: operation.effect.is_repeatable(),
            timeout: TIMEOUT,
        }
    }

    /// A request about a feature.
    pub fn of_feature(operation: &'static Row, id: &FeatureId) -> Self {
        Self::new(operation, &[id.entity_type.as_str(), id.name.as_str()])
    }

    /// A request about a version of a feature.
    pub fn of_version(operation: &'static Row, id: &FeatureId, version: &VersionLabel) -> Self {
        Self::new(operation, &[id.entity_type.as_str(), id.name.as_str(), version.as_str()])
    }

    /// A request about a list. The default version needs no parameter.
    pub fn of_list(operation: &'static Row, id: &FeatureId, entity_id: &EntityId, version: &VersionLabel) -> Self {
        Self::new(operation, &[id.entity_type.as_str(), id.name.as_str(), entity_id.as_str()])
            .query(&liststore_contract::wire::parameters::VERSION, (!version.is_default()).then_some(version))
    }

    /// Declares that doing this one twice is as good as doing it once.
    pub fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    pub fn query(mut self, parameter: &Parameter, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (parameter.name, value.to_string())));
        self
    }

    pub fn body(self, body: &impl Serialize) -> Result<Self, ClientError> {
        let text =
            serde_json::to_vec(body).map_err(|e| ClientError::Setup(format!("cannot write the request: {e}")))?;
        Ok(self.json(text))
    }

    /// A body that is JSON already.
    pub fn json(self, body: Vec<u8>) -> Self {
        Self { body: Some(Bytes::from(body)), ..self }
    }

    /// Gives the server more time to answer than operations have.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub fn if_none(self) -> Self {
        Self { if_none: true, ..self }
    }

    pub fn if_match(self, etag: Option<String>) -> Self {
        Self { if_match: etag, ..self }
    }
}

#[cfg(test)]
mod tests {
    use liststore_contract::operations::{
        add_items, create_feature, get_history, get_items, remove_all_items, remove_items, update_version,
    };

    use super::*;
    use liststore_contract::domain::{EntityType, FeatureName};

    fn id() -> FeatureId {
        FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("a.b-c").unwrap() }
    }

    #[test]
    fn any_entity_id_is_one_path_segment() {
        for (entity_id, encoded) in [
            ("u-1", "u-1"),
            ("a/b?c#d%2F é", "a%2Fb%3Fc%23d%252F%20%C3%A9"),
            ("../x", "..%2Fx"),
            ("a\\b\n", "a%5Cb%0A"),
            ("%2e%2e", "%252e%252e"),
        ] {
            let entity_id = EntityId::new(entity_id).unwrap();
            let request = Request::of_list(&get_items::ROW, &id(), &entity_id, &VersionLabel::default_version());
            assert_eq!(request.path, format!("/v1/lists/user/a.b-c/{encoded}/items"));
        }
    }

    #[test]
    fn the_default_version_is_an_empty_segment_and_no_parameter() {
        let (default, other) = (VersionLabel::default_version(), VersionLabel::new("2024/08").unwrap());
        let path = |version| Request::of_version(&update_version::ROW, &id(), version).path;
        assert_eq!(path(&default), "/v1/features/user/a.b-c/versions/");
        assert_eq!(path(&other), "/v1/features/user/a.b-c/versions/2024%2F08");
        let entity_id = EntityId::new("u").unwrap();
        let query = |version| Request::of_list(&add_items::ROW, &id(), &entity_id, version).query;
        assert_eq!(query(&default), []);
        assert_eq!(query(&other), [("version", "2024/08".to_owned())]);
    }

    #[test]
    fn adds_are_repeatable_and_removals_of_some_items_are_not() {
        let repeatable = |operation| Request::new(operation, &[]).repeatable;
        assert!(repeatable(&add_items::ROW) && repeatable(&remove_all_items::ROW));
        assert!(repeatable(&get_history::ROW));
        assert!(!repeatable(&remove_items::ROW) && !repeatable(&create_feature::ROW));
    }
}
