//! The loop: checks each pool when it or its Deployment changes, and every few seconds, because pods do not report a
//! restart with the size of their settings.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use k8s_openapi::api::apps::v1::Deployment;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use liststore_contract::domain::Clock;

use super::cluster::{MANAGER, Namespace, ReadyPod};
use super::decide::{CheckContext, Decision, Notice, Observed, PodView, READY, decide};
use super::pods::{Pods, Target};
use super::probes::{PoolHealth, Progress};
use super::resource::ListActorPool;

/// The interval between checks of a pool without events.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The same while something is in progress.
const CHECK_INTERVAL_BUSY: Duration = Duration::from_secs(2);
/// The delay after a failed check, for example of an unavailable API server.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Pods that are queried, or resized, at once.
const PODS_AT_ONCE: usize = 16;

/// A pool, or why an object of that kind is malformed. A malformed one must not block the others.
type AnyPool = DeserializeGuard<ListActorPool>;

struct Operator {
    client: Client,
    recorder: Recorder,
    pods: Pods,
    progress: Arc<Progress>,
    clock: Arc<dyn Clock>,
}

/// Runs until a signal stops it.
pub async fn run(client: Client, namespace: &str, pods: Pods, progress: Arc<Progress>, clock: Arc<dyn Clock>) {
    let pools: Api<AnyPool> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let controller = Controller::new(pools, watcher::Config::default());
    let (known, listed) = (controller.store(), controller.store());
    let of_deployment = move |deployment: Deployment| {
        let refers = |pool: &Arc<AnyPool>| {
            pool.0.as_ref().is_ok_and(|pool| pool.spec.deployment_ref.name == deployment.name_any())
        };
        known.state().into_iter().filter(refers).map(|pool| ObjectRef::from_obj(&*pool)).collect::<Vec<_>>()
    };
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let health = listed.clone();
    progress.show_pools(move || health.state().iter().filter_map(|pool| pool.0.as_ref().ok()).map(health_of).collect());
    let listing = async {
        if listed.wait_until_ready().await.is_ok() {
            progress.listed();
        }
    };
    let operator = Arc::new(Operator { client, recorder, pods, progress: Arc::clone(&progress), clock });
    let reconciling = controller
        .watches(deployments, watcher::Config::default(), of_deployment)
        .shutdown_on_signal()
        .run(reconcile, on_failure, operator)
        .for_each(|outcome| async move {
            if let Err(error) = outcome {
                tracing::debug!(%error, "reconciliation failed or the object is gone");
            }
        });
    let _ended = futures_util::future::join(reconciling, listing).await;
}

fn health_of(pool: &ListActorPool) -> PoolHealth {
    let ready = pool.status.as_ref().and_then(|status| status.condition(READY));
    PoolHealth { name: pool.name_any(), is_ready: ready.is_some_and(|ready| ready.status == "True") }
}

async fn reconcile(pool: Arc<AnyPool>, operator: Arc<Operator>) -> kube::Result<Action> {
    match &pool.0 {
        Ok(pool) => {
            let outcome = operator.reconcile_pool(pool).await;
            operator.progress.record_check(outcome.is_ok());
            outcome
        }
        Err(invalid) => {
            tracing::warn!(pool = pool.name_any(), error = %invalid, "cannot parse this ListActorPool");
            Ok(Action::await_change())
        }
    }
}

fn on_failure(pool: Arc<AnyPool>, error: &kube::Error, _operator: Arc<Operator>) -> Action {
    tracing::warn!(pool = pool.name_any(), %error, "cannot reconcile a pool: retrying");
    Action::requeue(RETRY_DELAY)
}

impl Operator {
    async fn reconcile_pool(&self, pool: &ListActorPool) -> kube::Result<Action> {
        if pool.metadata.deletion_timestamp.is_some() {
            // Its Deployment stays as it is.
            return Ok(Action::await_change());
        }
        let (name, spec) = (pool.name_any(), &pool.spec);
        let namespace = Namespace::new(&self.client, &pool.namespace().unwrap_or_default());
        let deployment = namespace.deployment(&spec.deployment_ref.name).await?;
        let ready = match &deployment {
            // Without a selector, any pod of the namespace would match.
            Some(deployment) if deployment.names(&name) && !deployment.selector.is_empty() => {
                namespace.ready_pods(deployment).await?
            }
            _ => Vec::new(),
        };
        let pods = iter(ready.clone()).map(|ReadyPod { name, address }| async move {
            PodView { name, pool: self.pods.ask(&Target::new(address, spec)).await }
        });
        let pods = pods.buffer_unordered(PODS_AT_ONCE).collect().await;
        let before = pool.status.clone().unwrap_or_default();
        let now = self.clock.now().to_string();
        let context =
            CheckContext { name: &name, spec, generation: pool.metadata.generation, before: &before, now: &now };
        let Decision { adopt, scale_to, resize, status, notices } = decide(&context, &Observed { deployment, pods });

        // Before the status, which changes the version of the object.
        if let Some(replicas) = adopt {
            namespace.adopt(pool, replicas).await?;
            tracing::info!(pool = name, replicas, "adopted the replicas of the Deployment");
        }
        // Before a change of the Deployment, with the selector: autoscalers read it before there is anything to scale.
        if status != before {
            namespace.write_status(&name, &status).await?;
        }
        if let Some(replicas) = scale_to {
            namespace.scale(&spec.deployment_ref.name, replicas).await?;
            self.progress.scaled();
            tracing::info!(pool = name, replicas, "scaled");
        }
        let due = ready.into_iter().filter(|pod| resize.contains(&pod.name)).collect();
        let failed = self.resize(pool, due).await;
        join_all(notices.into_iter().chain(failed).map(|notice| self.publish(pool, notice))).await;
        let is_busy = status.condition(READY).is_none_or(|reported| reported.status != "True");
        Ok(Action::requeue(if is_busy { CHECK_INTERVAL_BUSY } else { CHECK_INTERVAL }))
    }

    /// Returns the failures. The next check finds the pods that were not resized.
    async fn resize(&self, pool: &ListActorPool, due: Vec<ReadyPod>) -> Vec<Notice> {
        let spec = &pool.spec;
        let resizing = iter(due).map(|ReadyPod { name, address }| async move {
            let resized = self.pods.resize(&Target::new(address, spec), spec.actors_per_pod).await;
            self.progress.resized(resized.is_ok());
            match resized {
                Ok(()) => {
                    tracing::info!(pod = name, actors = spec.actors_per_pod, "resized");
                    None
                }
                Err(reason) => {
                    tracing::warn!(pod = name, reason, "a pod was not resized: retrying");
                    let note = format!("{name}: {reason}");
                    Some(Notice { is_warning: true, reason: "NotResized", note })
                }
            }
        });
        resizing.buffer_unordered(PODS_AT_ONCE).filter_map(|failed| async move { failed }).collect().await
    }

    /// Events are for people. A pool works without them.
    async fn publish(&self, pool: &ListActorPool, notice: Notice) {
        let event = Event {
            type_: if notice.is_warning { EventType::Warning } else { EventType::Normal },
            reason: notice.reason.to_owned(),
            // The API's bound is a kilobyte.
            note: Some(notice.note.chars().take(250).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &pool.object_ref(&())).await {
            tracing::debug!(%error, "cannot publish an event");
        }
    }
}
