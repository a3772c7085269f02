//! Aggregates over windows of time: every store's results must equal those of a plain model, which shares no code with
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use liststore::domain::{Identity, Int64As, JsonForm, Keep, MaxItems, MemberKey, ValueType};
use liststore::items::{AggregateFailure, AggregateOutcome, Aggregation, OpContext};
use liststore::wire::{AggregateInput, Aggregated, WindowAggregates};
use serde_json::{Value, json};

use super::Backend;
use super::aggregate_cases::Chooser;
use super::aggregate_model::{Beyond, Case, Known, Model};
use super::probe::{Probe, SECOND, fresh_feature_key, list_key, ttl};

async fn aggregate(probe: &Probe, op: &OpContext, case: &Case) -> AggregateOutcome {
    let input = AggregateInput::read(case.body.to_string().as_bytes()).unwrap();
    let form = JsonForm { value_type: case.value_type, int64_as: Int64As::Number };
    let plan = Arc::new(Aggregation::new(&input, form, case.items_max).unwrap());
    probe.session.aggregate(op, &probe.list, &plan).await.unwrap()
}

/// Whether results are equal, up to the last bits of doubles.
fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| agree(one, other)))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            one == other || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
        }
        _ => one == other,
    }
}

/// Compares an outcome with the model.
fn check(case: &Case, base: i64, outcome: &AggregateOutcome) {
    let model = Model { case, base };
    let windows = model.windows();
    let expected: Result<Vec<_>, Beyond> = windows.iter().map(|(items, _)| model.window(items)).collect();
    match (&outcome.result, expected) {
        (Err(AggregateFailure::OutOfRange { aggregate }), Err(beyond)) => assert_eq!(*aggregate, beyond, "{case:#?}"),
        (Ok(Aggregated { windows: found, items_read, .. }), Ok(expected)) => {
            assert_eq!((*items_read, found.len()), (outcome.items_read, expected.len()));
            for (place, (found, (results, groups, skipped))) in found.iter().zip(expected).enumerate() {
                let WindowAggregates { complete, reason, .. } = found;
                let about = format!("window {place} of {case:#?}\nfound {found:#?}");
                assert_eq!(reason.as_deref(), windows[place].1, "{about}");
                assert_eq!((*complete, found.skipped), (reason.is_none(), skipped), "{about}");
                let shown = serde_json::to_value((&found.results, &found.groups)).unwrap();
                let expected = json!([results, groups]);
                assert!(agree(&shown, &expected), "expected {expected:#}\n{about}");
            }
        }
        (found, expected) => panic!("{found:?} and not {expected:?} of {case:#?}"),
    }
}

/// Newest first, each item once.
fn in_order(probe: &Probe, mut items: Vec<Known>) -> Vec<Known> {
    items.sort_by_key(|item| std::cmp::Reverse(probe.key(item.offset, &item.stored).to_string()));
    items.dedup_by(|one, other| one.offset == other.offset && one.stored == other.stored);
    items
}

/// An operation on a list with the retention of a case.
fn operation(probe: &Probe, case: &Case) -> OpContext {
    let mut op = probe.op_at(0, ttl(case.ttl));
    op.max_items = case.max_items.map(|items| MaxItems::new(items).unwrap());
    op
}

pub async fn random_aggregates_agree_with_the_model(backend: &dyn Backend) {
    let mut chooser = Chooser::seeded();
    let feature_key = fresh_feature_key();
    let probe = Probe::open_at(backend, backend.now(), ttl(86_400)).await;
    let base = probe.base.as_nanos().cast_signed();
    for round in 0..30 {
        let value_type = chooser.one_of(&[&ValueType::ALL[..], &[ValueType::Json; 4], &[ValueType::Int64; 2]].concat());
        let count = chooser.0.usize(..50);
        let items = (0..count).map(|_| {
            let offset = chooser.offset();
            Known::new(value_type, offset, &chooser.value(value_type))
        });
        let items = in_order(&probe, items.collect());
        // An item beyond `max_items` may be reclaimed: so each list is read with one bound, and first without.
        let probe = probe.with_list(list_key(&feature_key, &format!("u-{round}")));
        if !items.is_empty() {
            let new: Vec<_> = items.iter().map(|item| (item.offset, item.stored.clone())).collect();
            probe.add(&new).await;
        }
        for _ in 0..8 {
            let case = Case { max_items: None, ..chooser.case(value_type, items.clone(), base) };
            check(&case, base, &aggregate(&probe, &operation(&probe, &case), &case).await);
        }
        let case = chooser.case(value_type, items, base);
        check(&case, base, &aggregate(&probe, &operation(&probe, &case), &case).await);
    }
}

pub async fn a_long_list_is_aggregated_whole(backend: &dyn Backend) {
    const ITEMS: i64 = 12_000;
    let probe = Probe::open(backend).await;
    let mut items: Vec<_> =
        (0..ITEMS).map(|n| Known::new(ValueType::Int64, -n * SECOND / 8, &json!(n % 1_000))).collect();
    for part in items.chunks(1_000) {
        let new: Vec<_> = part.iter().map(|item| (item.offset, item.stored.clone())).collect();
        probe.add(&new).await;
    }
    items = in_order(&probe, items);
    let windows = json!(["1s", "700s", "1500s", "3600s"]);
    let base = probe.base.as_nanos().cast_signed();
    for (aggregates, items_max) in [
        (json!([{"name": "n", "function": "count"}]), 100_000),
        (json!([{"name": "n", "function": "count"}]), 7_000),
        (json!([{"name": "s", "function": "sum"}, {"name": "d", "function": "count_distinct"}]), 100_000),
        (json!([{"name": "s", "function": "sum"}, {"name": "f", "function": "first"}]), 11_999),
    ] {
        let body = json!({"windows": windows, "aggregates": aggregates});
        let case =
            Case { value_type: ValueType::Int64, items: items.clone(), body, ttl: 3_600, max_items: None, items_max };
        let outcome = aggregate(&probe, &probe.op(), &case).await;
        assert_eq!(outcome.items_read, items_max.min(ITEMS as u64));
        check(&case, base, &outcome);
    }
}

pub async fn aggregates_of_a_missing_list_are_empty(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let body = json!({"windows": ["60s"], "aggregates": [{"name": "n", "function": "count"}, {"name": "s", "function": "sum"}]});
    let items_max = 10;
    let case = Case { value_type: ValueType::Int64, items: Vec::new(), body, ttl: 3_600, max_items: None, items_max };
    let outcome = aggregate(&probe, &probe.op(), &case).await;
    assert_eq!(outcome.items_read, 0);
    check(&case, probe.base.as_nanos().cast_signed(), &outcome);
}

/// Sets: each member once, and of keyed members the payload.
pub async fn random_aggregates_of_sets_agree_with_the_model(backend: &dyn Backend) {
    let mut chooser = Chooser::seeded();
    let probe = Probe::open_at(backend, backend.now(), ttl(86_400)).await;
    let base = probe.base.as_nanos().cast_signed();
    for round in 0..12 {
        let identity = chooser.one_of(&[Identity::Key(Keep::Newest), Identity::Value(Keep::Newest)]);
        let value_type = chooser.one_of(&[ValueType::Json, ValueType::Int64]);
        let feature_key = fresh_feature_key().with_identity(identity);
        let probe = probe.with_list(list_key(&feature_key, &format!("u-{round}")));
        let mut members = BTreeMap::<Vec<u8>, Known>::new();
        let mut new = Vec::new();
        for _ in 0..chooser.0.usize(1..40) {
            let mut item = Known::new(value_type, chooser.offset(), &chooser.value(value_type));
            if let Identity::Key(_) = identity {
                let key = format!("k{}", chooser.0.u8(..20));
                item.stored = MemberKey::new(&key).unwrap().store(&item.stored).to_vec();
            }
            new.push((item.offset, item.stored.clone()));
            let key = |item: &Known| probe.key(item.offset, &item.stored).to_string();
            let member = identity.member(&item.stored).to_vec();
            if members.get(&member).is_none_or(|present| key(present) < key(&item)) {
                members.insert(member, item);
            }
        }
        probe.add(&new).await;
        let items = in_order(&probe, members.into_values().collect());
        for _ in 0..6 {
            let case = Case { max_items: None, ..chooser.case(value_type, items.clone(), base) };
            check(&case, base, &aggregate(&probe, &operation(&probe, &case), &case).await);
        }
        let case = chooser.case(value_type, items, base);
        check(&case, base, &aggregate(&probe, &operation(&probe, &case), &case).await);
    }
}
