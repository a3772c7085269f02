//! The status of a pool, by the API's conventions. It is read leniently, because other programs may have written it.

use kube::KubeSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The last observed status.
#[derive(KubeSchema, Serialize, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The generation of the object that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The desired number of pods, within the bounds and the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// The label selector of the pods as text, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// List actors of all pods that responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actors: Option<i32>,
    /// Ready pods with the desired number of list actors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_at_size: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One condition, as defined by the conventions of the Kubernetes API.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A one-word reason, for programs.
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
}

impl PoolStatus {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Missing or malformed members count as if no check had happened. Otherwise, one object with an unreadable status
/// would block the operator for all other objects.
impl<'de> Deserialize<'de> for PoolStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = serde_json::Value::deserialize(deserializer)?;
        let number = |name: &str| found.get(name)?.as_i64();
        let small = |name: &str| number(name).and_then(|number| i32::try_from(number).ok());
        let conditions = found.get("conditions").and_then(|found| found.as_array()).into_iter().flatten();
        Ok(Self {
            observed_generation: number("observedGeneration"),
            replicas: small("replicas"),
            ready_replicas: small("readyReplicas"),
            desired_replicas: small("desiredReplicas"),
            selector: found.get("selector").and_then(|text| text.as_str()).map(str::to_owned),
            actors: small("actors"),
            pods_at_size: small("podsAtSize"),
            conditions: conditions.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_or_invalid_status_is_read_where_valid() {
        for (text, replicas, conditions) in [
            ("{}", None, 0),
            (r#"{"replicas": 3, "conditions": null}"#, Some(3), 0),
            (r#"{"replicas": "three", "selector": 7, "conditions": [{"type": "Ready"}, 5]}"#, None, 0),
            (
                r#"{"replicas": 2, "more": {}, "conditions": [{"type": "Ready", "status": "True", "reason": "AsWanted",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#,
                Some(2),
                1,
            ),
            ("[]", None, 0),
        ] {
            let status: PoolStatus = serde_json::from_str(text).unwrap();
            assert_eq!((status.replicas, status.conditions.len()), (replicas, conditions), "{text}");
        }
    }

    #[test]
    fn a_written_status_is_read_back() {
        let condition = Condition {
            kind: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "AsWanted".to_owned(),
            message: "m".to_owned(),
            observed_generation: Some(3),
            last_transition_time: "2026-01-01T00:00:00Z".to_owned(),
        };
        let status = PoolStatus {
            observed_generation: Some(3),
            replicas: Some(2),
            ready_replicas: Some(1),
            desired_replicas: Some(4),
            selector: Some("a=b".to_owned()),
            actors: Some(8),
            pods_at_size: Some(1),
            conditions: vec![condition],
        };
        assert_eq!(serde_json::from_str::<PoolStatus>(&serde_json::to_string(&status).unwrap()).unwrap(), status);
    }
}
