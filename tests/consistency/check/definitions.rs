//! Checks the control plane. Features and versions exist exactly from their creation to their deletion, for calls that
//! read definitions and for calls on lists. A TTL is the last one that was set.

use std::collections::BTreeMap;

use super::Violation;
use super::linear::{Effect, Step, Verdict, judge, minimal};
use crate::history::{Call, History, Outcome, Request, VersionName};

/// The bits of one feature: the feature itself with its default version, then its other versions.
struct Bits<'h> {
    feature: &'h str,
    labels: Vec<&'h str>,
}

const FEATURE: u64 = 1;

impl Bits<'_> {
    fn of(&self, version: &VersionName) -> u64 {
        let place = self.labels.iter().position(|label| *label == version.label);
        place.map_or(FEATURE, |place| 2 << place)
    }
}

/// The reader of definitions: control plane calls read its store, and calls on lists the catalog. An unacknowledged
/// change may reach one a moment before the other, so the two are checked separately.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Store,
    Catalog,
}

pub fn check(history: &History) -> Result<Vec<Violation>, String> {
    let mut violations = Vec::new();
    for bits in features(history)? {
        for (side, promise) in [
            (Side::Store, "definitions are linearizable"),
            (Side::Catalog, "a change of a definition holds for list operations once it is acknowledged"),
        ] {
            let steps = existence(history, &bits, side);
            let there = history.versions.iter().filter(|(version, _)| version.feature == bits.feature);
            let start = there.fold(0, |start, (version, _)| start | bits.of(version));
            violations.extend(judged(&steps, start, promise, bits.feature));
        }
    }
    for (version, secs) in ttls(history) {
        let started = history.versions.iter().find(|(name, _)| name == version);
        let start = started.map_or(0, |(_, first)| bit_of(&secs, *first));
        if secs.len() > 64 {
            return Err(format!("{version} had more than 64 different TTLs: fewer please"));
        }
        let steps = ttl_steps(history, version, &secs);
        violations.extend(judged(&steps, start, "a TTL is the last one that was set", &version.to_string()));
    }
    Ok(violations)
}

fn judged(steps: &[Step], start: u64, promise: &'static str, what: &str) -> Option<Violation> {
    match judge(steps, start) {
        Verdict::Possible => None,
        Verdict::Undecided => Some(Violation::new(
            "the history can be judged",
            format!("too many calls of unknown outcome on {what}"),
            [],
        )),
        Verdict::Impossible { step } => {
            let detail = format!("no order of these calls on {what} explains the answer to call {}", steps[step].call);
            Some(Violation::new(promise, detail, minimal(steps, start).into_iter().map(|step| step.call)))
        }
    }
}

fn version_of(request: &Request) -> Option<&VersionName> {
    match request {
        Request::CreateVersion { version, .. }
        | Request::DeleteVersion { version }
        | Request::ChangeTtl { version, .. }
        | Request::ReadTtl { version } => Some(version),
        Request::CreateFeature { .. } | Request::DeleteFeature { .. } => None,
        _ => request.list().map(|list| &list.version),
    }
}

fn features(history: &History) -> Result<Vec<Bits<'_>>, String> {
    let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let known = history.versions.iter().map(|(version, _)| version);
    for version in known.chain(history.calls.iter().filter_map(|call| version_of(&call.request))) {
        let labels = labels.entry(&version.feature).or_default();
        if !version.label.is_empty() && !labels.contains(&version.label.as_str()) {
            labels.push(&version.label);
        }
    }
    for call in &history.calls {
        if let Request::CreateFeature { feature, .. } | Request::DeleteFeature { feature } = &call.request {
            labels.entry(feature).or_default();
        }
    }
    if let Some((feature, _)) = labels.iter().find(|(_, labels)| labels.len() > 62) {
        return Err(format!("{feature} has more than 62 versions: fewer please"));
    }
    Ok(labels.into_iter().map(|(feature, labels)| Bits { feature, labels }).collect())
}

fn existence(history: &History, bits: &Bits<'_>, side: Side) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, call) in history.calls.iter().enumerate() {
        if let Some(effect) = existence_effect(bits, side, call) {
            let optional = call.unknown();
            steps.push(Step { call: index, from: call.from, to: history.latest(call), optional, effect });
        }
    }
    steps
}

fn existence_effect(bits: &Bits<'_>, side: Side, call: &Call) -> Option<Effect> {
    let feature = match &call.request {
        Request::CreateFeature { feature, .. } | Request::DeleteFeature { feature } => feature,
        request => &version_of(request)?.feature,
    };
    if feature != bits.feature {
        return None;
    }
    let bit = version_of(&call.request).map_or(FEATURE, |version| bits.of(version));
    let writes = matches!(
        call.request,
        Request::CreateFeature { .. }
            | Request::DeleteFeature { .. }
            | Request::CreateVersion { .. }
            | Request::DeleteVersion { .. }
    );
    let on_list = call.request.list().is_some();
    if !writes && (on_list != (side == Side::Catalog)) {
        return None;
    }
    let happened = call.outcome == Outcome::Done || call.unknown();
    match (&call.request, &call.outcome) {
        (_, Outcome::FeatureNotFound) => Some(Effect::reports(FEATURE, 0)),
        (_, Outcome::VersionNotFound) => Some(Effect::reports(FEATURE | bit, FEATURE)),
        (_, Outcome::Exists) => Some(Effect::reports(bit, bit)),
        (Request::CreateFeature { .. }, _) if happened => Some(Effect { reported: bit, set: bit, ..Effect::default() }),
        (Request::CreateVersion { .. }, _) if happened => {
            Some(Effect { reported: FEATURE | bit, reported_set: FEATURE, set: bit, ..Effect::default() })
        }
        (Request::DeleteFeature { .. }, _) if happened => {
            Some(Effect { reported: FEATURE, reported_set: FEATURE, clear: u64::MAX, ..Effect::default() })
        }
        (Request::DeleteVersion { .. }, _) if happened => {
            Some(Effect { reported: bit, reported_set: bit, clear: bit, ..Effect::default() })
        }
        (
            _,
            Outcome::Page { .. }
            | Outcome::Added { .. }
            | Outcome::Removed(_)
            | Outcome::Counted { .. }
            | Outcome::Contained(_)
            | Outcome::Done
            | Outcome::Ttl(_),
        ) => Some(Effect::reports(FEATURE | bit, FEATURE | bit)),
        _ => None,
    }
}

/// Every version with all TTLs that were ever set or read.
fn ttls(history: &History) -> BTreeMap<&VersionName, Vec<u64>> {
    let mut ttls: BTreeMap<&VersionName, Vec<u64>> = BTreeMap::new();
    let started = history.versions.iter().map(|(version, secs)| (version, *secs));
    let named = history.calls.iter().filter_map(|call| match (&call.request, &call.outcome) {
        (Request::ChangeTtl { version, ttl_secs } | Request::CreateVersion { version, ttl_secs }, _) => {
            Some((version, *ttl_secs))
        }
        (Request::ReadTtl { version }, Outcome::Ttl(secs)) => Some((version, *secs)),
        _ => None,
    });
    for (version, secs) in started.chain(named) {
        let known = ttls.entry(version).or_default();
        if !known.contains(&secs) {
            known.push(secs);
        }
    }
    // A creation of the feature sets the TTL of its default version.
    for call in &history.calls {
        if let Request::CreateFeature { feature, ttl_secs } = &call.request {
            for (version, known) in &mut ttls {
                if version.feature == *feature && version.label.is_empty() && !known.contains(ttl_secs) {
                    known.push(*ttl_secs);
                }
            }
        }
    }
    ttls
}

fn bit_of(secs: &[u64], wanted: u64) -> u64 {
    secs.iter().position(|secs| *secs == wanted).map_or(0, |place| 1 << place)
}

fn ttl_steps(history: &History, version: &VersionName, secs: &[u64]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, call) in history.calls.iter().enumerate() {
        let happened = call.outcome == Outcome::Done || call.unknown();
        let effect = match (&call.request, &call.outcome) {
            (Request::ChangeTtl { version: of, ttl_secs } | Request::CreateVersion { version: of, ttl_secs }, _)
                if happened && of == version =>
            {
                Effect { set: bit_of(secs, *ttl_secs), clear: u64::MAX, ..Effect::default() }
            }
            (Request::CreateFeature { feature, ttl_secs }, _)
                if happened && version.label.is_empty() && *feature == version.feature =>
            {
                Effect { set: bit_of(secs, *ttl_secs), clear: u64::MAX, ..Effect::default() }
            }
            (Request::ReadTtl { version: of }, Outcome::Ttl(read)) if of == version => {
                Effect::reports(u64::MAX, bit_of(secs, *read))
            }
            _ => continue,
        };
        steps.push(Step { call: index, from: call.from, to: history.latest(call), optional: call.unknown(), effect });
    }
    steps
}
