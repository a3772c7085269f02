//! Aggregates over windows of time: every store's results must equal those of a plain model, which shares no code with
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use liststore::domain::{Identity, Int64As, JsonForm, Keep, MaxItems, MemberKey, ValueType};
use liststore::items::{AggregateFailure, AggregateOutcome, Aggregation, OpContext};
use liststore::wire::{AggregateInput, Aggregated, WindowAggregates};
use serde_json::{Map, Value, json};

use super::Backend;
use super::probe::{Probe, SECOND, fresh_feature_key, list_key, ttl};

const MINUTE: i64 = 60 * SECOND;

/// An item, its value as JSON and as it is stored.
#[derive(Debug, Clone)]
struct Known {
    offset: i64,
    json: Value,
    stored: Vec<u8>,
}

impl Known {
    fn new(value_type: ValueType, offset: i64, json: &Value) -> Self {
        let stored = value_type.encode(&json.to_string()).unwrap().as_bytes().to_vec();
        Self { offset, json: as_returned(value_type, json), stored }
    }
}

/// A value as a get returns it: a JSON value has integers wherever it can.
fn as_returned(value_type: ValueType, json: &Value) -> Value {
    match value_type {
        ValueType::Json => serde_json::from_slice(value_type.encode(&json.to_string()).unwrap().as_bytes()).unwrap(),
        _ => json.clone(),
    }
}

/// A request, and its items.
#[derive(Debug)]
struct Case {
    value_type: ValueType,
    items: Vec<Known>,
    body: Value,
    /// Seconds.
    ttl: u64,
    max_items: Option<u64>,
    items_max: u64,
}

async fn aggregate(probe: &Probe, op: &OpContext, case: &Case) -> AggregateOutcome {
    let input = AggregateInput::read(case.body.to_string().as_bytes()).unwrap();
    let form = JsonForm { value_type: case.value_type, int64_as: Int64As::Number };
    let plan = Arc::new(Aggregation::new(&input, form, case.items_max).unwrap());
    probe.session.aggregate(op, &probe.list, &plan).await.unwrap()
}

/// The aggregates of items, newest first.
struct Model<'c> {
    case: &'c Case,
    /// Nanoseconds since the Unix epoch.
    base: i64,
}

/// Why the model has no result: a sum of this aggregate is beyond its type.
type Beyond = usize;

impl Model<'_> {
    fn nanos(&self, text: &Value) -> i64 {
        text.as_i64().unwrap() - self.base
    }

    /// The first and last offset of a window.
    fn bounds(&self, window: &Value) -> (i64, i64) {
        let as_of = self.case.body.get("as_of").map(|as_of| self.nanos(as_of));
        match window.as_str() {
            Some(length) => {
                let secs: i64 = length.trim_end_matches('s').parse().unwrap();
                (as_of.unwrap_or(0) - secs * SECOND + 1, as_of.unwrap_or(0))
            }
            None => {
                let max = self.nanos(&window["max_timestamp"]);
                (self.nanos(&window["min_timestamp"]), as_of.map_or(max, |as_of| as_of.min(max)))
            }
        }
    }

    /// The items of each window, and the reason of missing ones.
    fn windows(&self) -> Vec<(Vec<&Known>, Option<&'static str>)> {
        let asked: Vec<_> = self.case.body["windows"].as_array().unwrap().iter().map(|w| self.bounds(w)).collect();
        let visible_from = 1 - self.case.ttl as i64 * SECOND;
        let visible: Vec<_> = self.case.items.iter().filter(|item| item.offset >= visible_from).collect();
        let max_items = self.case.max_items.map_or(usize::MAX, |max| max as usize);
        let shown = &visible[..visible.len().min(max_items)];
        let floor = asked.iter().map(|(min, _)| *min).min().unwrap();
        let ceiling = asked.iter().map(|(_, max)| *max).max().unwrap();
        let is_read =
            |item: &&&Known| item.offset >= floor && (self.case.max_items.is_some() || item.offset <= ceiling);
        let to_read: Vec<_> = shown.iter().filter(is_read).copied().collect();
        let read = &to_read[..to_read.len().min(self.case.items_max as usize)];
        let window = |(min, max): &(i64, i64)| {
            let has = read.iter().filter(|item| (*min..=*max).contains(&item.offset)).copied().collect();
            let next = to_read.get(self.case.items_max as usize);
            let last = shown.get(max_items.wrapping_sub(1)).filter(|_| read.len() == max_items);
            let reason = if *min < visible_from {
                Some("ttl")
            } else if last.is_some_and(|last| *min <= last.offset) {
                Some("max_items")
            } else if next.is_some_and(|next| *min <= next.offset) {
                Some("items_max")
            } else {
                None
            };
            (has, reason)
        };
        asked.iter().map(window).collect()
    }

    fn property<'v>(of: &Value, value: &'v Value) -> Option<&'v Value> {
        match of.get("property") {
            Some(pointer) => value.pointer(pointer.as_str().unwrap()),
            None => Some(value),
        }
    }

    fn window(&self, items: &[&Known]) -> Result<(Option<Value>, Option<Value>, u64), Beyond> {
        let body = &self.case.body;
        let matches = |item: &&Known| {
            body.get("where").is_none_or(|filter| {
                let value = Self::property(filter, &item.json);
                value.is_some_and(|value| filter["in"].as_array().unwrap().contains(value))
            })
        };
        let items: Vec<_> = items.iter().copied().filter(matches).collect();
        let aggregates = body["aggregates"].as_array().unwrap();
        let Some(group_by) = body.get("group_by") else {
            let skipped = items.iter().filter(|item| aggregates.iter().any(|a| !takes(a, &item.json))).count();
            let results = aggregates
                .iter()
                .enumerate()
                .map(|(index, a)| Ok::<_, Beyond>((name(a), self.result(index, a, &items)?)));
            return Ok((Some(Value::Object(results.collect::<Result<_, _>>()?)), None, skipped as u64));
        };
        let mut groups = BTreeMap::<String, (Value, Vec<&Known>)>::new();
        let mut skipped = 0;
        for item in items {
            let Some(value) = Self::property(group_by, &item.json) else {
                skipped += 1;
                continue;
            };
            skipped += u64::from(aggregates.iter().any(|a| !takes(a, &item.json)));
            let group = groups.entry(value.to_string()).or_insert_with(|| (value.clone(), Vec::new()));
            group.1.push(item);
        }
        let mut groups: Vec<_> = groups.into_values().map(|(value, items)| (Some(value), items)).collect();
        groups.sort_by(|(one, ones), (other, others)| {
            others
                .len()
                .cmp(&ones.len())
                .then_with(|| order(one.as_ref().unwrap()).cmp(&order(other.as_ref().unwrap())))
        });
        let others = groups.split_off(groups.len().min(group_by["max_groups"].as_u64().unwrap() as usize));
        if !others.is_empty() {
            let mut others: Vec<_> = others.into_iter().flat_map(|(_, items)| items).collect();
            others.sort_by_key(|other| self.case.items.iter().position(|item| std::ptr::eq(item, *other)));
            groups.push((None, others));
        }
        let mut results: Vec<Map<String, Value>> = vec![Map::new(); groups.len()];
        for (index, a) in aggregates.iter().enumerate() {
            for ((_, items), results) in groups.iter().zip(&mut results) {
                results.insert(name(a), self.result(index, a, items)?);
            }
        }
        let shown = groups.into_iter().zip(results).map(|((value, items), results)| match value {
            Some(value) => json!({"value": value, "count": items.len(), "results": results}),
            None => json!({"other": true, "count": items.len(), "results": results}),
        });
        Ok((None, Some(shown.collect()), skipped))
    }

    fn result(&self, index: usize, aggregate: &Value, items: &[&Known]) -> Result<Value, Beyond> {
        let taken = items.iter().filter(|item| takes(aggregate, &item.json));
        let values: Vec<_> = taken.filter_map(|item| Self::property(aggregate, &item.json)).collect();
        let numbers = || values.iter().map(|value| value.as_f64().unwrap());
        Ok(match aggregate["function"].as_str().unwrap() {
            "count" => values.len().into(),
            "count_distinct" => values.iter().map(ToString::to_string).collect::<BTreeSet<_>>().len().into(),
            "sum" if values.iter().all(|value| value.is_i64()) => {
                let sum: i128 = values.iter().map(|value| i128::from(value.as_i64().unwrap())).sum();
                match i64::try_from(sum) {
                    Ok(sum) => sum.into(),
                    Err(_) if self.case.value_type == ValueType::Json => (sum as f64).into(),
                    Err(_) => return Err(index),
                }
            }
            // Doubles of the cases are quarters, so that each order has this sum.
            "sum" => numbers().sum::<f64>().into(),
            "mean" | "stddev" | "min" | "max" | "first" | "last" if values.is_empty() => Value::Null,
            "mean" => mean(&values).into(),
            "stddev" => {
                let mean = mean(&values);
                let squares: f64 = numbers().map(|number| (number - mean) * (number - mean)).sum();
                (squares / values.len() as f64).sqrt().into()
            }
            "min" => (*values.iter().min_by_key(|value| order(value)).unwrap()).clone(),
            "max" => (*values.iter().max_by_key(|value| order(value)).unwrap()).clone(),
            "first" => (*values.last().unwrap()).clone(),
            "last" => values[0].clone(),
            "top" => {
                let mut counts = BTreeMap::<_, (Value, u64)>::new();
                values.iter().for_each(|value| counts.entry(order(value)).or_insert(((*value).clone(), 0)).1 += 1);
                let mut counts: Vec<_> = counts.into_values().collect();
                // Stable: of equal counts the lowest value stays first.
                counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                counts.truncate(aggregate["k"].as_u64().unwrap() as usize);
                counts.into_iter().map(|(value, count)| json!({"value": value, "count": count})).collect()
            }
            other => panic!("no such function: {other}"),
        })
    }
}

fn mean(values: &[&Value]) -> f64 {
    if values.iter().all(|value| value.is_i64()) {
        let sum: i128 = values.iter().map(|value| i128::from(value.as_i64().unwrap())).sum();
        return sum as f64 / values.len() as f64;
    }
    values.iter().map(|value| value.as_f64().unwrap()).sum::<f64>() / values.len() as f64
}

fn name(aggregate: &Value) -> String {
    aggregate["name"].as_str().unwrap().to_owned()
}

/// Whether an aggregate takes a value.
fn takes(aggregate: &Value, value: &Value) -> bool {
    let needs_number = ["sum", "mean", "stddev", "min", "max"].contains(&aggregate["function"].as_str().unwrap());
    Model::property(aggregate, value).is_some_and(|value| !needs_number || value.is_number())
}

/// A key that sorts values: null, booleans, numbers, texts. Numbers of the cases are integers, or quarters.
fn order(value: &Value) -> (u8, i128, String) {
    match value {
        Value::Null => (0, 0, String::new()),
        Value::Bool(is) => (1, i128::from(*is), String::new()),
        Value::Number(number) => {
            let quarters = number.as_i64().map(|int| i128::from(int) * 4);
            (2, quarters.unwrap_or_else(|| (number.as_f64().unwrap() * 4.0) as i128), String::new())
        }
        Value::String(text) => (3, 0, text.clone()),
        Value::Array(_) | Value::Object(_) => panic!("no case has such a property"),
    }
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

/// Chooses cases.
struct Chooser(fastrand::Rng);

impl Chooser {
    fn seeded() -> Self {
        let seed = uuid::Uuid::new_v4().as_u64_pair().1;
        eprintln!("random aggregates: seed {seed}");
        Self(fastrand::Rng::with_seed(seed))
    }

    fn one_of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.0.usize(..among.len())].clone()
    }

    fn offset(&mut self) -> i64 {
        -self.0.i64(-5..240) * MINUTE + self.0.i64(-1..=1)
    }

    fn number(&mut self) -> Value {
        let (int, quarters) = (self.0.i32(-3..9), self.0.i32(-40..40));
        self.one_of(&[json!(int), json!(f64::from(quarters) / 4.0), json!(9_007_199_254_740_992_i64)])
    }

    fn value(&mut self, value_type: ValueType) -> Value {
        let text = self.one_of(&["", "a", "a!", "b", "é", "\"quoted\""]);
        let (int, quarters) = (self.0.i32(-3..9), self.0.i32(-40..40));
        match value_type {
            ValueType::String => json!(text),
            ValueType::Int64 => {
                let small = json!(int);
                self.one_of(&[small.clone(), small, json!(i64::MAX), json!(i64::MIN), json!(1_i64 << 40)])
            }
            ValueType::Double => json!(f64::from(quarters) / 4.0),
            ValueType::Bool => json!(int > 0),
            ValueType::Bytes => json!(self.one_of(&["AP8=", "", "AAAA"])),
            ValueType::Json => self.object(text),
        }
    }

    fn object(&mut self, text: &str) -> Value {
        let mut object = Map::new();
        let number = self.number();
        let amount = self.one_of(&[number.clone(), number.clone(), number, json!(null), json!(text), json!(true)]);
        for (name, value) in [("amount", amount), ("kind", json!(text)), ("nested", json!({"x": [1, text]}))] {
            if self.0.u8(..10) > 0 {
                object.insert(name.to_owned(), value);
            }
        }
        self.one_of(&[object.clone().into(), object.into(), json!(7)])
    }

    fn property(&mut self, value_type: ValueType) -> Map<String, Value> {
        let mut of = Map::new();
        if value_type == ValueType::Json {
            of.insert("property".to_owned(), self.one_of(&["/amount", "/kind", "/nested/x/1", "/none"]).into());
        }
        of
    }

    fn aggregates(&mut self, value_type: ValueType) -> Value {
        let has_numbers = matches!(value_type, ValueType::Int64 | ValueType::Double | ValueType::Json);
        let functions = ["count", "count_distinct", "first", "last", "top", "sum", "mean", "stddev", "min", "max"];
        let functions = if has_numbers { &functions[..] } else { &functions[..5] };
        let count = self.0.usize(1..6);
        (0..count)
            .map(|index| {
                let function = self.one_of(functions);
                let mut aggregate = self.property(value_type);
                aggregate.insert("name".to_owned(), format!("{function}-{index}").into());
                aggregate.insert("function".to_owned(), function.into());
                if function == "top" {
                    aggregate.insert("k".to_owned(), self.0.u32(1..4).into());
                }
                Value::Object(aggregate)
            })
            .collect()
    }

    /// A case on items of this type. `base` is the present, in nanoseconds since the Unix epoch.
    fn case(&mut self, value_type: ValueType, items: Vec<Known>, base: i64) -> Case {
        let windows: Vec<_> = (0..self.0.usize(1..7))
            .map(|_| {
                let (one, other) = (self.offset(), self.offset());
                let between = json!({"min_timestamp": base + one.min(other), "max_timestamp": base + one.max(other)});
                let last = json!(format!("{}s", self.0.i64(1..20_000)));
                self.one_of(&[between, last.clone(), last])
            })
            .collect();
        let mut body = json!({"windows": windows, "aggregates": self.aggregates(value_type)});
        if self.0.u8(..3) == 0 {
            body["as_of"] = (base + self.offset().min(0)).into();
        }
        if self.0.u8(..3) == 0 && !items.is_empty() {
            let mut filter = self.property(value_type);
            let some: Vec<_> = (0..3).map(|_| self.one_of(&items).json).collect();
            let found = some.iter().filter_map(|json| Model::property(&Value::Object(filter.clone()), json));
            let mut values: Vec<_> = found.cloned().collect();
            values.push(as_returned(value_type, &self.value(value_type)));
            filter.insert("in".to_owned(), values.into());
            body["where"] = filter.into();
        }
        if self.0.u8(..3) == 0 {
            let mut group_by = self.property(value_type);
            group_by.insert("max_groups".to_owned(), self.0.u32(1..5).into());
            body["group_by"] = group_by.into();
        }
        let ttl = self.one_of(&[86_400, 86_400, 3_600, 7_200]);
        let (max_items, items_max) = (self.0.u64(1..40), self.0.u64(1..40));
        let max_items = self.one_of(&[None, None, Some(max_items)]);
        let items_max = self.one_of(&[100_000, 100_000, items_max]);
        Case { value_type, items, body, ttl, max_items, items_max }
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

pub async fn aggregates_of_a_missing_list_are_of_nothing(backend: &dyn Backend) {
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
