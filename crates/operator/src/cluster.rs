//! Objects of Kubernetes that concern a pool: read one by one, and written by server-side apply, so that each field
//! has one manager.

use std::net::IpAddr;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Selector;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::decide::DeploymentView;
use super::resource::ListActorPool;
use super::status::PoolStatus;

/// Who is said to have set a field.
pub const MANAGER: &str = "liststore-operator";
/// The number of pods to read of one Deployment: the maximum of a pool, and those of a rollout.
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
    pods: Api<Pod>,
}

impl Namespace {
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            pools: Api::namespaced(client.clone(), name),
            deployments: Api::namespaced(client.clone(), name),
            pods: Api::namespaced(client.clone(), name),
        }
    }

    pub async fn deployment(&self, name: &str) -> kube::Result<Option<DeploymentView>> {
        Ok(self.deployments.get_opt(name).await?.map(|deployment| view(&deployment)))
    }

    /// The pods that answer, and are not about to go.
    pub async fn ready_pods(&self, selector: &str) -> kube::Result<Vec<ReadyPod>> {
        let found = self.pods.list(&ListParams::default().labels(selector).limit(PODS_MAX)).await?;
        Ok(found.items.iter().filter_map(ready).collect())
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

    /// A pool that was deleted since has no status to write.
    pub async fn tell(&self, pool: &str, status: &PoolStatus) -> kube::Result<()> {
        let told = json!({
            "apiVersion": "liststore.dev/v1alpha1",
            "kind": "ListActorPool",
            "metadata": {"name": pool},
            "status": status,
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match self.pools.patch_status(pool, &parameters, &Patch::Apply(&told)).await {
            Err(kube::Error::Api(problem)) if problem.is_not_found() => Ok(()),
            told => told.map(|_| ()),
        }
    }
}

fn view(deployment: &Deployment) -> DeploymentView {
    let (spec, status) = (deployment.spec.as_ref(), deployment.status.as_ref());
    let selector = spec.and_then(|spec| Selector::try_from(spec.selector.clone()).ok());
    DeploymentView {
        wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        replicas: status.and_then(|status| status.replicas).unwrap_or(0),
        ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
        selector: selector.map(|selector| selector.to_string()).unwrap_or_default(),
    }
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
