//! Decides the actions for a pool, and its report, from the observed state: a pure function.

use super::resource::{Limit, ListActorPoolSpec};
use super::status::{Condition, PoolStatus};

pub const READY: &str = "Ready";
pub const LIMITED: &str = "ScalingLimited";

/// The observed state of a pool's Deployment and pods.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// None if there is none.
    pub deployment: Option<DeploymentView>,
    /// The ready ones.
    pub pods: Vec<PodView>,
}

/// The annotation by which a Deployment names the pool that may scale it.
pub const POOL: &str = "liststore.dev/pool";

#[derive(Debug, Clone)]
pub struct DeploymentView {
    pub uid: String,
    /// The pool that it names in its annotation.
    pub pool: Option<String>,
    /// The wanted number of pods.
    pub wanted: i32,
    pub replicas: i32,
    pub ready: i32,
    pub selector: String,
}

impl DeploymentView {
    /// Whether its owner lets this pool scale it.
    pub fn names(&self, pool: &str) -> bool {
        self.pool.as_deref() == Some(pool)
    }
}

#[derive(Debug, Clone)]
pub struct PodView {
    pub name: String,
    pub pool: PodPool,
}

/// A pod's answer about its list actors.
#[derive(Debug, Clone)]
pub enum PodPool {
    Has {
        actors: i32,
        /// It is changing their number.
        is_resizing: bool,
    },
    /// The pod does not answer, for this reason.
    Silent(String),
}

/// The time and the object of a check.
#[derive(Debug, Clone)]
pub struct CheckContext<'a> {
    /// The name of the pool.
    pub name: &'a str,
    pub spec: &'a ListActorPoolSpec,
    pub generation: Option<i64>,
    /// The status of the previous check.
    pub before: &'a PoolStatus,
    /// In RFC 3339.
    pub now: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Write this number of replicas into the pool, which has none.
    pub adopt: Option<i32>,
    /// Scale the Deployment to this many replicas.
    pub scale_to: Option<i32>,
    /// Give the pods of these names `actorsPerPod` list actors.
    pub resize: Vec<String>,
    pub status: PoolStatus,
    pub notices: Vec<Notice>,
}

/// An event for readers of the object's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub is_warning: bool,
    pub reason: &'static str,
    pub note: String,
}

pub fn decide(context: &CheckContext<'_>, observed: &Observed) -> Decision {
    let (spec, name) = (context.spec, &context.spec.deployment_ref.name);
    let Some(deployment) = &observed.deployment else {
        let message = format!("the Deployment {name} does not exist in this namespace");
        return without_deployment(context, "DeploymentMissing", message);
    };
    if !deployment.names(context.name) {
        let message = format!(
            "the Deployment {name} does not name this pool: kubectl annotate deployment/{name} {POOL}={}",
            context.name
        );
        return without_deployment(context, "NotOptedIn", message);
    }
    let requested = spec.replicas.unwrap_or(deployment.wanted);
    let (desired, limit) = spec.allowed(requested, deployment.wanted);
    let scale_to = (deployment.wanted != desired).then_some(desired);
    // More actors must wait while the budget has no sessions for the present pods.
    let fits = spec.most_by_budget().is_none_or(|most| deployment.replicas <= most);
    let is_due = |pod: &&PodView| match pod.pool {
        PodPool::Has { actors, is_resizing: false } => {
            actors > spec.actors_per_pod || (actors < spec.actors_per_pod && fits)
        }
        _ => false,
    };
    let resize: Vec<_> = observed.pods.iter().filter(is_due).map(|pod| pod.name.clone()).collect();
    let reported = observed.pods.iter().filter_map(|pod| match pod.pool {
        PodPool::Has { actors, .. } => Some(actors),
        PodPool::Silent(_) => None,
    });
    let at_size = reported.clone().filter(|actors| *actors == spec.actors_per_pod).count();
    let (is_ready, reason, message) = match limit {
        Some(Limit::NoBudget) => (false, "BudgetTooSmall", too_small(spec)),
        _ => readiness(spec, deployment, observed, desired, at_size),
    };
    let mut status = PoolStatus {
        observed_generation: context.generation,
        replicas: Some(deployment.replicas),
        ready_replicas: Some(deployment.ready),
        desired_replicas: Some(desired),
        selector: Some(deployment.selector.clone()),
        actors: Some(reported.fold(0, i32::saturating_add)),
        pods_at_size: i32::try_from(at_size).ok(),
        conditions: vec![condition(context, READY, is_ready, reason, message)],
    };
    let (is_limited, reason, message) = limitation(spec, requested, desired, limit);
    status.conditions.push(condition(context, LIMITED, is_limited, reason, message));
    let mut notices = changes(context.before, &status);
    let adopt = spec.replicas.is_none().then_some(deployment.wanted);
    notices.extend(adopt.map(|number| Notice {
        is_warning: false,
        reason: "Adopted",
        note: format!("the pool has the {number} replicas of the Deployment {name}"),
    }));
    notices.extend(scale_to.map(|to| Notice {
        is_warning: false,
        reason: "Scaled",
        note: format!("{} pods instead of {}", to, deployment.wanted),
    }));
    if !resize.is_empty() {
        let note = format!("{} list actors for {}", spec.actors_per_pod, resize.join(", "));
        notices.push(Notice { is_warning: false, reason: "Resizing", note });
    }
    Decision { adopt, scale_to, resize, status, notices }
}

/// The previous state stays, because autoscalers continue to read it.
fn without_deployment(context: &CheckContext<'_>, reason: &str, message: String) -> Decision {
    let status = PoolStatus {
        observed_generation: context.generation,
        replicas: Some(0),
        ready_replicas: Some(0),
        desired_replicas: context.spec.replicas,
        // An autoscaler refuses an empty one, with a stronger error than for missing pods.
        selector: context.before.selector.clone().or_else(|| Some("liststore.dev/deployment=missing".to_owned())),
        actors: Some(0),
        pods_at_size: Some(0),
        conditions: vec![condition(context, READY, false, reason, message)],
    };
    let notices = changes(context.before, &status);
    Decision { adopt: None, scale_to: None, resize: Vec::new(), status, notices }
}

fn readiness(
    spec: &ListActorPoolSpec,
    deployment: &DeploymentView,
    observed: &Observed,
    desired: i32,
    at_size: usize,
) -> (bool, &'static str, String) {
    let silent = observed.pods.iter().find_map(|pod| match &pod.pool {
        PodPool::Silent(reason) => Some(format!("{}: {reason}", pod.name)),
        PodPool::Has { .. } => None,
    });
    let DeploymentView { replicas, ready, .. } = *deployment;
    if replicas != desired {
        return (false, "Scaling", format!("{replicas} pods, {desired} desired"));
    }
    if ready < desired {
        return (false, "PodsNotReady", format!("{ready} of {desired} pods are ready"));
    }
    if let Some(silent) = silent {
        return (false, "PodsUnreachable", silent);
    }
    if at_size < observed.pods.len() || observed.pods.len() < desired.max(0) as usize {
        let actors = spec.actors_per_pod;
        return (false, "ResizingPods", format!("{at_size} of {desired} pods have {actors} list actors"));
    }
    (true, "AsWanted", format!("{desired} pods with {} list actors each", spec.actors_per_pod))
}

/// Why a budget does not suffice for one pod.
fn too_small(spec: &ListActorPoolSpec) -> String {
    let (max, sessions) = (spec.session_budget.as_ref().map_or(0, |budget| budget.max), spec.sessions_per_pod());
    format!(
        "sessionBudget.max is {max}, but one pod opens {} sessions: raise it or lower actorsPerPod",
        sessions.unwrap_or_default()
    )
}

fn limitation(
    spec: &ListActorPoolSpec,
    wanted: i32,
    desired: i32,
    limit: Option<Limit>,
) -> (bool, &'static str, String) {
    let by = |what: &str| format!("{wanted} pods requested, {what} allows {desired}");
    match limit {
        None => (false, "WithinBounds", format!("{wanted} pods requested and allowed")),
        Some(Limit::MinReplicas) => (true, "TooFewReplicas", by("minReplicas")),
        Some(Limit::MaxReplicas) => (true, "TooManyReplicas", by("maxReplicas")),
        Some(Limit::SessionBudget) => (true, "SessionBudget", by("sessionBudget")),
        Some(Limit::NoBudget) => (true, "SessionBudget", too_small(spec)),
    }
}

/// The time of the last transition stays for as long as the status does.
fn condition(context: &CheckContext<'_>, kind: &str, is_so: bool, reason: &str, message: String) -> Condition {
    let status = if is_so { "True" } else { "False" };
    let before = context.before.condition(kind).filter(|before| before.status == status);
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: context.generation,
        last_transition_time: before
            .map_or_else(|| context.now.to_owned(), |before| before.last_transition_time.clone()),
    }
}

/// Changes that people should notice without watching the conditions.
fn changes(before: &PoolStatus, after: &PoolStatus) -> Vec<Notice> {
    const REPORTED: [(&str, &str, bool); 8] = [
        (READY, "AsWanted", false),
        (READY, "DeploymentMissing", true),
        (READY, "NotOptedIn", true),
        (READY, "PodsUnreachable", true),
        (READY, "BudgetTooSmall", true),
        (LIMITED, "TooManyReplicas", true),
        (LIMITED, "TooFewReplicas", true),
        (LIMITED, "SessionBudget", true),
    ];
    let news = |(kind, reason, is_warning): (&str, &'static str, bool)| {
        let after = after.condition(kind).filter(|after| after.reason == reason)?;
        let is_news = before.condition(kind).is_none_or(|before| before.reason != reason);
        is_news.then(|| Notice { is_warning, reason, note: after.message.clone() })
    };
    REPORTED.into_iter().filter_map(news).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{DeploymentRef, SessionBudget};

    const BEFORE: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-01T00:01:00Z";

    fn spec() -> ListActorPoolSpec {
        ListActorPoolSpec {
            deployment_ref: DeploymentRef { name: "liststore".to_owned() },
            replicas: Some(3),
            min_replicas: 1,
            max_replicas: 10,
            actors_per_pod: 2,
            admin_port: 9090,
            admin_tls: None,
            session_budget: None,
        }
    }

    fn deployment(wanted: i32, replicas: i32, ready: i32) -> Option<DeploymentView> {
        Some(DeploymentView {
            uid: "u-1".to_owned(),
            pool: Some("lists".to_owned()),
            wanted,
            replicas,
            ready,
            selector: "app=liststore".to_owned(),
        })
    }

    fn pods(actors: &[i32]) -> Vec<PodView> {
        let pod = |(number, actors): (usize, &i32)| PodView {
            name: format!("p-{number}"),
            pool: PodPool::Has { actors: *actors, is_resizing: false },
        };
        actors.iter().enumerate().map(pod).collect()
    }

    fn decision_of(spec: &ListActorPoolSpec, before: &PoolStatus, observed: &Observed) -> Decision {
        decide(&CheckContext { name: "lists", spec, generation: Some(7), before, now: NOW }, observed)
    }

    fn reason<'a>(decision: &'a Decision, kind: &str) -> (&'a str, &'a str) {
        let condition = decision.status.condition(kind).unwrap();
        (&condition.status, &condition.reason)
    }

    fn reasons(decision: &Decision) -> Vec<&str> {
        decision.notices.iter().map(|notice| notice.reason).collect()
    }

    #[test]
    fn a_pool_at_its_target_is_unchanged_and_reported_once() {
        let observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
        let first = decision_of(&spec(), &PoolStatus::default(), &observed);
        assert_eq!((first.scale_to, first.resize.len()), (None, 0));
        assert_eq!(reason(&first, READY), ("True", "AsWanted"));
        assert_eq!((first.status.actors, first.status.selector.as_deref()), (Some(6), Some("app=liststore")));
        assert_eq!((first.status.observed_generation, reasons(&first)), (Some(7), vec!["AsWanted"]));
        let again = decide(
            &CheckContext {
                name: "lists",
                spec: &spec(),
                generation: Some(7),
                before: &first.status,
                now: "2026-01-01T09:00:00Z",
            },
            &observed,
        );
        assert_eq!((&again.status, again.notices.len()), (&first.status, 0), "nothing to be written");
    }

    #[test]
    fn replicas_are_brought_within_the_bounds() {
        for (wanted, to, limited) in [
            (3, None, "WithinBounds"),
            (12, Some(10), "TooManyReplicas"),
            (5, Some(5), "WithinBounds"),
            (0, Some(1), "TooFewReplicas"),
        ] {
            let spec = ListActorPoolSpec { replicas: Some(wanted), ..spec() };
            let observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
            let decision = decision_of(&spec, &PoolStatus::default(), &observed);
            assert_eq!((decision.scale_to, reason(&decision, LIMITED).1), (to, limited), "{wanted}");
            let is_ready = to.is_none();
            assert_eq!(reason(&decision, READY).0 == "True", is_ready, "{wanted}");
        }
    }

    #[test]
    fn a_budget_bounds_pods_and_delays_actors_until_there_is_room() {
        let budget = Some(SessionBudget { max: 24, nodes: 3 });
        // Two actors: four pods. Four actors: two pods.
        let spec = ListActorPoolSpec { replicas: Some(9), session_budget: budget, ..spec() };
        let observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
        let decision = decision_of(&spec, &PoolStatus::default(), &observed);
        assert_eq!((decision.scale_to, reason(&decision, LIMITED)), (Some(4), ("True", "SessionBudget")));
        let more_actors = ListActorPoolSpec { actors_per_pod: 4, ..spec.clone() };
        let decision = decision_of(&more_actors, &PoolStatus::default(), &observed);
        assert_eq!((decision.scale_to, decision.resize.len()), (Some(2), 0), "three pods with four are too many");
        let fewer = Observed { deployment: deployment(2, 2, 2), pods: pods(&[2, 2]) };
        assert_eq!(decision_of(&more_actors, &PoolStatus::default(), &fewer).resize, ["p-0", "p-1"]);
        let fewer_actors = ListActorPoolSpec { actors_per_pod: 1, ..spec };
        assert_eq!(decision_of(&fewer_actors, &PoolStatus::default(), &observed).resize.len(), 3);
    }

    #[test]
    fn pods_of_another_size_are_resized_once_and_silent_ones_reported() {
        let mut observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[1, 2, 1]) };
        let decision = decision_of(&spec(), &PoolStatus::default(), &observed);
        assert_eq!(
            (decision.resize, decision.status.pods_at_size),
            (vec!["p-0".to_owned(), "p-2".to_owned()], Some(1))
        );
        observed.pods[0].pool = PodPool::Has { actors: 1, is_resizing: true };
        observed.pods[2].pool = PodPool::Silent("refused".to_owned());
        let decision = decision_of(&spec(), &PoolStatus::default(), &observed);
        assert!(decision.resize.is_empty());
        assert_eq!(reason(&decision, READY), ("False", "PodsUnreachable"));
        assert_eq!(reasons(&decision), ["PodsUnreachable"]);
        assert!(decision.notices[0].note.contains("p-2: refused"));
    }

    #[test]
    fn a_missing_deployment_is_only_reported() {
        let decision = decision_of(&spec(), &PoolStatus::default(), &Observed::default());
        assert_eq!((decision.scale_to, decision.resize.len()), (None, 0));
        assert_eq!(
            (reason(&decision, READY), reasons(&decision)),
            (("False", "DeploymentMissing"), vec!["DeploymentMissing"])
        );
        assert!(decision.status.selector.is_some(), "an autoscaler asks for it from the start");
        let before = PoolStatus { selector: Some("app=liststore".to_owned()), ..decision.status };
        let again = decision_of(&spec(), &before, &Observed::default());
        assert_eq!((again.status.selector, again.notices.len()), (Some("app=liststore".to_owned()), 0));
    }

    /// A pool that is created next to a service in use must not change the service.
    #[test]
    fn a_pool_without_replicas_adopts_the_number_of_the_deployment() {
        let observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
        let spec = ListActorPoolSpec { replicas: None, ..spec() };
        let decision = decision_of(&spec, &PoolStatus::default(), &observed);
        assert_eq!((decision.adopt, decision.scale_to), (Some(3), None));
        assert_eq!((reason(&decision, READY), decision.status.desired_replicas), (("True", "AsWanted"), Some(3)));
        assert!(reasons(&decision).contains(&"Adopted"));
        let adopted = ListActorPoolSpec { replicas: Some(3), ..spec.clone() };
        assert_eq!(decision_of(&adopted, &PoolStatus::default(), &observed).adopt, None);
        // Explicit bounds are a request.
        let bounded = ListActorPoolSpec { max_replicas: 2, ..spec };
        let decision = decision_of(&bounded, &PoolStatus::default(), &observed);
        assert_eq!((decision.adopt, decision.scale_to), (Some(3), Some(2)));
    }

    #[test]
    fn a_budget_that_is_too_small_for_one_pod_changes_nothing_and_is_not_ready() {
        for (min_replicas, replicas) in [(0, Some(3)), (1, Some(1)), (0, None)] {
            let session_budget = Some(SessionBudget { max: 5, nodes: 3 });
            let spec = ListActorPoolSpec { min_replicas, replicas, session_budget, ..spec() };
            let observed = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
            let decision = decision_of(&spec, &PoolStatus::default(), &observed);
            assert_eq!((decision.scale_to, decision.resize.len()), (None, 0), "{replicas:?}");
            assert_eq!(reason(&decision, READY), ("False", "BudgetTooSmall"));
            assert_eq!(reason(&decision, LIMITED), ("True", "SessionBudget"));
            assert!(decision.notices[0].note.contains("one pod opens 6 sessions"), "{:?}", decision.notices);
        }
        // A pool at zero needs no sessions.
        let session_budget = Some(SessionBudget { max: 5, nodes: 3 });
        let off = ListActorPoolSpec { min_replicas: 0, replicas: Some(0), session_budget, ..spec() };
        let observed = Observed { deployment: deployment(0, 0, 0), pods: Vec::new() };
        assert_eq!(reason(&decision_of(&off, &PoolStatus::default(), &observed), READY), ("True", "AsWanted"));
    }

    #[test]
    fn a_deployment_that_does_not_name_the_pool_is_left_alone() {
        let (spec, before) = (spec(), PoolStatus::default());
        for named in [None, Some("other".to_owned())] {
            let mut deployment = deployment(5, 5, 5);
            deployment.as_mut().unwrap().pool = named;
            let observed = Observed { deployment, pods: pods(&[1, 1, 1, 1, 1]) };
            let decision = decision_of(&spec, &before, &observed);
            assert_eq!((decision.adopt, decision.scale_to, decision.resize.len()), (None, None, 0));
            assert_eq!((reason(&decision, READY), reasons(&decision)), (("False", "NotOptedIn"), vec!["NotOptedIn"]));
            assert!(decision.notices[0].note.contains("liststore.dev/pool=lists"));
        }
        let observed = Observed { deployment: deployment(5, 5, 5), pods: pods(&[1, 1, 1, 1, 1]) };
        assert_eq!(decision_of(&spec, &before, &observed).scale_to, Some(3));
    }

    #[test]
    fn a_transition_keeps_its_first_time() {
        let observed = Observed { deployment: deployment(3, 3, 2), pods: pods(&[2, 2]) };
        let mut before = decision_of(&spec(), &PoolStatus::default(), &observed).status;
        assert_eq!(before.condition(READY).unwrap().reason, "PodsNotReady");
        for condition in &mut before.conditions {
            condition.last_transition_time = BEFORE.to_owned();
        }
        let same = decision_of(&spec(), &before, &observed).status;
        assert_eq!(same.condition(READY).unwrap().last_transition_time, BEFORE);
        let whole = Observed { deployment: deployment(3, 3, 3), pods: pods(&[2, 2, 2]) };
        let ready = decision_of(&spec(), &before, &whole).status;
        assert_eq!(ready.condition(READY).unwrap().last_transition_time, NOW);
        assert_eq!(ready.condition(LIMITED).unwrap().last_transition_time, BEFORE);
    }
}
