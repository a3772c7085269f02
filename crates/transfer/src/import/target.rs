//! The destination of items, and the origins of their rows.

use std::sync::Arc;

use liststore_contract::row::Row;

use super::groups::Group;
use super::shape::Shape;
use super::source::Source;
use super::tally::Tally;
use crate::client::{Client, Request};
use crate::domain::{FeatureId, VersionLabel};

pub struct Target {
    pub client: Client,
    pub feature: FeatureId,
    pub version: VersionLabel,
    pub shape: Shape,
    pub sources: Vec<Source>,
    pub tally: Arc<Tally>,
}

impl Target {
    /// A request for the list of a group.
    pub fn request(&self, operation: &'static Row, group: &Group) -> Request {
        Request::of_list(operation, &self.feature, &group.entity_id, &self.version)
    }
}
