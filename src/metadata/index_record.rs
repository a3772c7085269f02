//! The stored form of an index: read back through the domain's constructors, so that a damaged or edited record is
//! found out and never believed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::Invalid;
use crate::domain::index::{Index, IndexSpec, Pointer};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexRecord {
    properties: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order_by: Option<String>,
    ready: bool,
}

impl From<&Index> for IndexRecord {
    fn from(index: &Index) -> Self {
        let text = |pointer: &Pointer| pointer.as_str().to_owned();
        Self {
            properties: index.spec.properties().iter().map(text).collect(),
            order_by: index.spec.order_by().map(text),
            ready: index.is_ready,
        }
    }
}

impl TryFrom<IndexRecord> for Index {
    type Error = Invalid;

    fn try_from(record: IndexRecord) -> Result<Self, Invalid> {
        let properties = record.properties.iter().map(|text| Pointer::new(text)).collect::<Result<_, _>>()?;
        let order_by = record.order_by.as_deref().map(Pointer::new).transpose()?;
        Ok(Self { spec: Arc::new(IndexSpec::new(properties, order_by)?), is_ready: record.ready })
    }
}
