//! Objects of Kubernetes that concern a pool: read one by one, and written by server-side apply, so that each field
//! has one manager.

use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Selector;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::decide::{DeploymentView, POOL};
use super::resource::ListActorPool;
use super::status::PoolStatus;

/// The manager name for the fields that the operator sets.
pub const MANAGER: &str = "liststore-operator";
/// The number of pods to read of one Deployment: the maximum of a pool, with additional ones during a rollout.
const PODS_MAX: u32 = 2_000;

/// A pod that is ready, and where it is.
#[derive(Clone)]
pub struct ReadyPod {
    pub name: String,
    pub address: IpAddr,
}

/// The objects of one namespace.
#[derive(Clone)]
pub struct Namespace {
    pools: Api<ListActorPool>,
    deployments: Api<Deployment>,
    replica_sets: Api<ReplicaSet>,
    pods: Api<Pod>,
}

impl Namespace {
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            pools: Api::namespaced(client.clone(), name),
            deployments: Api::namespaced(client.clone(), name),
            replica_sets: Api::namespaced(client.clone(), name),
            pods: Api::namespaced(client.clone(), name),
        }
    }

    pub async fn deployment(&self, name: &str) -> kube::Result<Option<DeploymentView>> {
        Ok(self.deployments.get_opt(name).await?.map(|deployment| view(&deployment)))
    }

    /// The Deployment's own pods that are ready and do not end. Another pod with the same labels is no server of this
    /// Deployment: it must not receive the operator's key.
    pub async fn ready_pods(&self, deployment: &DeploymentView) -> kube::Result<Vec<ReadyPod>> {
        let selected = ListParams::default().labels(&deployment.selector).limit(PODS_MAX);
        let sets = self.replica_sets.list_metadata(&selected).await?;
        let of_deployment = sets.items.iter().filter(|set| is_controlled_by(&set.metadata, &deployment.uid));
        let sets: Vec<_> = of_deployment.filter_map(|set| set.metadata.uid.clone()).collect();
        let pods = self.pods.list(&selected).await?;
        let owned = pods.items.iter().filter(|pod| sets.iter().any(|set| is_controlled_by(&pod.metadata, set)));
        Ok(owned.filter_map(ready).collect())
    }

    /// Through the subresource, so that no other right over Deployments is needed. The previous manager of the number
    /// gives it up.
    pub async fn scale(&self, deployment: &str, replicas: i32) -> kube::Result<()> {
        let scale = json!({
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": deployment},
            "spec": {"replicas": replicas},
        });
        let parameters = PatchParams::apply(MANAGER).force();
        self.deployments.patch_scale(deployment, &parameters, &Patch::Apply(&scale)).await.map(|_| ())
    }

    /// Writes a number of replicas into a pool that has none. Fails if the pool has changed since it was read.
    pub async fn adopt(&self, pool: &ListActorPool, replicas: i32) -> kube::Result<()> {
        let scale = json!({"metadata": {"resourceVersion": pool.resource_version()}, "spec": {"replicas": replicas}});
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.pools.patch_scale(&pool.name_any(), &parameters, &Patch::Merge(&scale)).await.map(|_| ())
    }

    /// A pool that was deleted since has no status to write.
    pub async fn write_status(&self, pool: &str, status: &PoolStatus) -> kube::Result<()> {
        let reported = json!({
            "apiVersion": "liststore.dev/v1alpha1",
            "kind": "ListActorPool",
            "metadata": {"name": pool},
            "status": status,
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match self.pools.patch_status(pool, &parameters, &Patch::Apply(&reported)).await {
            Err(kube::Error::Api(problem)) if problem.is_not_found() => Ok(()),
            reported => reported.map(|_| ()),
        }
    }
}

fn view(deployment: &Deployment) -> DeploymentView {
    let (spec, status) = (deployment.spec.as_ref(), deployment.status.as_ref());
    let selector = spec.and_then(|spec| Selector::try_from(spec.selector.clone()).ok());
    DeploymentView {
        uid: deployment.uid().unwrap_or_default(),
        pool: deployment.annotations().get(POOL).cloned(),
        wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        replicas: status.and_then(|status| status.replicas).unwrap_or(0),
        ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
        selector: selector.map(|selector| selector.to_string()).unwrap_or_default(),
    }
}

/// Whether the object with this UID manages another one.
fn is_controlled_by(object: &ObjectMeta, uid: &str) -> bool {
    let mut owners = object.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn ready(pod: &Pod) -> Option<ReadyPod> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ReadyPod { name: pod.name_any(), address: status.pod_ip.as_ref()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    #[test]
    fn only_the_controller_of_an_object_owns_it() {
        let owner =
            |uid: &str, controller| OwnerReference { uid: uid.to_owned(), controller, ..OwnerReference::default() };
        let owners = vec![owner("a", Some(true)), owner("b", None), owner("c", Some(false))];
        let object = ObjectMeta { owner_references: Some(owners), ..ObjectMeta::default() };
        assert!(is_controlled_by(&object, "a"));
        for other in ["b", "c", "d", ""] {
            assert!(!is_controlled_by(&object, other), "{other}");
        }
        assert!(!is_controlled_by(&ObjectMeta::default(), "a"));
    }
}
