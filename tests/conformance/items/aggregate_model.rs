//! A plain model of aggregates over windows of time.

use std::collections::{BTreeMap, BTreeSet};

use liststore::domain::ValueType;
use serde_json::{Map, Value, json};

use super::probe::SECOND;

/// An item, its value as JSON and as it is stored.
#[derive(Debug, Clone)]
pub struct Known {
    pub offset: i64,
    pub json: Value,
    pub stored: Vec<u8>,
}

impl Known {
    pub fn new(value_type: ValueType, offset: i64, json: &Value) -> Self {
        let stored = value_type.encode(&json.to_string()).unwrap().as_bytes().to_vec();
        Self { offset, json: as_returned(value_type, json), stored }
    }
}

/// A value as a get returns it: a JSON value has integers wherever it can.
pub fn as_returned(value_type: ValueType, json: &Value) -> Value {
    match value_type {
        ValueType::Json => serde_json::from_slice(value_type.encode(&json.to_string()).unwrap().as_bytes()).unwrap(),
        _ => json.clone(),
    }
}

/// A request, and its items.
#[derive(Debug)]
pub struct Case {
    pub value_type: ValueType,
    pub items: Vec<Known>,
    pub body: Value,
    /// Seconds.
    pub ttl: u64,
    pub max_items: Option<u64>,
    pub items_max: u64,
}

/// Why the model has no result: a sum of this aggregate is beyond its type.
pub type Beyond = usize;

/// The aggregates of items, newest first.
pub struct Model<'c> {
    pub case: &'c Case,
    /// Nanoseconds since the Unix epoch.
    pub base: i64,
}

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
    pub fn windows(&self) -> Vec<(Vec<&Known>, Option<&'static str>)> {
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

    pub fn property<'v>(of: &Value, value: &'v Value) -> Option<&'v Value> {
        match of.get("property") {
            Some(pointer) => value.pointer(pointer.as_str().unwrap()),
            None => Some(value),
        }
    }

    pub fn window(&self, items: &[&Known]) -> Result<(Option<Value>, Option<Value>, u64), Beyond> {
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
