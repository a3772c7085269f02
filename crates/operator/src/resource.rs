//! `ListActorPool`: servers of one Deployment, and the list actors in each of them.

#![expect(clippy::duplicated_attributes, reason = "columns of a table may have one type")]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::status::PoolStatus;

/// The number of servers and the number of list actors in each.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "liststore.dev",
    version = "v1alpha1",
    kind = "ListActorPool",
    plural = "listactorpools",
    shortname = "lap",
    namespaced,
    status = "PoolStatus",
    derive = "PartialEq",
    doc = "Servers of one Deployment, and the list actors in each of them.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Actors", type_ = "integer", json_path = ".status.actors"),
    printcolumn(name = "As wanted", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.minReplicas <= self.maxReplicas").message("minReplicas must not be above maxReplicas"),
    validation = Rule::new(
        "!has(self.sessionBudget) || (self.minReplicas > 0 ? self.minReplicas : 1) * self.actorsPerPod * \
         self.sessionBudget.nodes <= self.sessionBudget.max"
    ).message(
        "sessionBudget.max is too small for minReplicas pods, or for one, with actorsPerPod list actors on all nodes"
    )
)]
pub struct ListActorPoolSpec {
    pub deployment_ref: DeploymentRef,
    /// The desired number of pods, which `kubectl scale` and autoscalers change. It is clamped to the bounds and the
    /// budget. Without it, the operator writes the current number of the Deployment here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000))]
    pub replicas: Option<i32>,
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1_000))]
    pub min_replicas: i32,
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_replicas: i32,
    /// List actors in each pod, each with one session with the item store.
    #[schemars(range(min = 1, max = 1_024))]
    pub actors_per_pod: i32,
    /// The port on which pods accept pool changes: the port of `admin.listen`, or else of `http.listen`.
    #[serde(default = "admin_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub admin_port: i32,
    /// How to check the pods' certificate, if that port has TLS: `admin.tls`, or `http.tls` for `http.listen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_tls: Option<AdminTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_budget: Option<SessionBudget>,
}

/// A Deployment of the same namespace.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct DeploymentRef {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// TLS at the port for pool changes. The operator's option `--ca-file` has the authorities.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AdminTls {
    /// A name in the pods' certificate, such as the name of their Service.
    #[schemars(length(min = 1, max = 253))]
    pub server_name: String,
}

/// The limit of sessions with the database: pods × actors × nodes.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct SessionBudget {
    /// Maximum number of concurrent sessions with nodes.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max: i32,
    /// Nodes of the database that each session connects to.
    #[schemars(range(min = 1, max = 1_000))]
    pub nodes: i32,
}

fn one() -> i32 {
    1
}

fn hundred() -> i32 {
    100
}

fn admin_port() -> i32 {
    9090
}

impl ListActorPoolSpec {
    /// The number of pods nearest to the requested one that the bounds and the budget allow, and the reason for the
    /// difference. A budget too small for one pod leaves the `present` number.
    pub fn allowed(&self, requested: i32, present: i32) -> (i32, Option<Limit>) {
        let in_bounds = requested.min(self.max_replicas).max(self.min_replicas);
        match self.most_by_budget() {
            Some(0) if in_bounds > 0 => return (present, Some(Limit::NoBudget)),
            Some(most) if most < in_bounds => return (most, Some(Limit::SessionBudget)),
            _ => {}
        }
        let limit = match () {
            () if in_bounds < requested => Some(Limit::MaxReplicas),
            () if in_bounds > requested => Some(Limit::MinReplicas),
            () => None,
        };
        (in_bounds, limit)
    }

    /// Sessions that one pod opens with all nodes, if they are limited.
    pub fn sessions_per_pod(&self) -> Option<i32> {
        Some(self.session_budget.as_ref()?.nodes.saturating_mul(self.actors_per_pod).max(1))
    }

    /// The number of pods of the wanted size for which the budget has sessions.
    pub fn most_by_budget(&self) -> Option<i32> {
        Some(self.session_budget.as_ref()?.max / self.sessions_per_pod()?)
    }
}

/// Why a pool cannot have the wanted number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    MinReplicas,
    MaxReplicas,
    SessionBudget,
    /// The budget does not suffice for one pod.
    NoBudget,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_definition_in_k8s_equals_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/operator/crd.yaml");
        let reported = "is not what `liststore-operator crd` prints: write that there";
        let kept: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(kept, serde_json::to_value(ListActorPool::crd()).unwrap(), "{path} {reported}");
    }
}
