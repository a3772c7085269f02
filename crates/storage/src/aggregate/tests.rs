//! Windows, bounds and groups, without a store.

use std::sync::Arc;
use std::time::Duration;

use liststore_contract::domain::{Identity, Int64As, JsonForm, MaxItems, Timestamp, Ttl, ValueType, json};
use liststore_contract::wire::{AggregateInput, Aggregated};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{AggregateFailure, AggregateOutcome, Aggregation, Aggregator};
use crate::OpContext;
use crate::collect::{Collect, Next};

/// Seconds.
const NOW: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn form(value_type: ValueType) -> JsonForm {
    JsonForm { value_type, int64_as: Int64As::Number }
}

struct Case {
    value_type: ValueType,
    ttl: Ttl,
    max_items: Option<u64>,
    items_max: u64,
    bytes_max: usize,
}

impl Case {
    fn of(value_type: ValueType) -> Self {
        Self { value_type, ttl: Ttl::MAX, max_items: None, items_max: 100_000, bytes_max: usize::MAX }
    }

    /// Items by their age in seconds, newest first, and their values as JSON.
    fn run(&self, body: &Value, items: &[(u64, &str)]) -> AggregateOutcome {
        let input = AggregateInput::read(body.to_string().as_bytes()).unwrap();
        let plan = Aggregation::new(&input, form(self.value_type), self.items_max).unwrap().within(self.bytes_max);
        let now = Timestamp::from_nanos(NOW * SECOND).unwrap();
        let mut op = OpContext::new(now, self.ttl, Instant::now() + Duration::from_secs(60));
        op.max_items = self.max_items.map(|items| MaxItems::new(items).unwrap());
        let mut aggregator = Aggregator::new(&Arc::new(plan), &op, Identity::Item);
        for (age, value) in items {
            let stored = match self.value_type {
                ValueType::Json => json::canonicalize(value).unwrap(),
                other => other.encode(value).unwrap().as_bytes().to_vec(),
            };
            let timestamp = (NOW - age) * SECOND;
            if timestamp >= aggregator.floor && aggregator.visit(timestamp, &stored) == Next::Done {
                break;
            }
        }
        aggregator.finish()
    }

    fn aggregated(&self, body: &Value, items: &[(u64, &str)]) -> Aggregated {
        self.run(body, items).result.unwrap()
    }

    /// The results of each window.
    fn results(&self, body: &Value, items: &[(u64, &str)]) -> Vec<Value> {
        let windows = self.aggregated(body, items).windows;
        windows.into_iter().map(|window| serde_json::to_value(window.results).unwrap()).collect()
    }
}

fn at(age: u64) -> Value {
    Timestamp::from_nanos((NOW - age) * SECOND).unwrap().to_string().into()
}

fn count_in(windows: &Value) -> Value {
    json!({"windows": windows, "aggregates": [{"name": "n", "function": "count"}]})
}

#[test]
fn a_duration_has_its_end_and_not_its_beginning() {
    let body = count_in(&json!(["10s", "20s", {"min_timestamp": at(20), "max_timestamp": at(10)}, "5s", "10s"]));
    let items = [(0, "1"), (5, "2"), (9, "3"), (10, "4"), (10, "5"), (19, "6"), (20, "7"), (21, "8")];
    let windows = Case::of(ValueType::Int64).aggregated(&body, &items).windows;
    let counts: Vec<_> = windows.iter().map(|window| window.results.as_ref().unwrap()["n"].as_u64().unwrap()).collect();
    assert_eq!(counts, [3, 6, 4, 1, 3]);
    assert!(windows.iter().all(|window| window.complete && window.reason.is_none()));
    assert_eq!(windows[0].window.as_deref(), Some("10s"));
    assert_eq!(Value::from(windows[0].max_timestamp.clone()), at(0));
    assert!(windows[0].min_timestamp.ends_with("30.000000001Z"), "{}", windows[0].min_timestamp);
    assert_eq!((windows[2].window.as_ref(), Value::from(windows[2].min_timestamp.clone())), (None, at(20)));
}

#[test]
fn no_item_after_as_of_counts_in_any_window() {
    let after = json!({"min_timestamp": at(4), "max_timestamp": at(1)});
    let mut body = count_in(&json!(["10s", {"min_timestamp": at(9), "max_timestamp": at(0)}, after]));
    body["as_of"] = at(5);
    let items = [(0, "1"), (4, "2"), (5, "3"), (9, "4"), (14, "5"), (15, "6")];
    let aggregated = Case::of(ValueType::Int64).aggregated(&body, &items);
    let counts: Vec<_> =
        aggregated.windows.iter().map(|window| window.results.as_ref().unwrap()["n"].clone()).collect();
    assert_eq!((counts, Value::from(aggregated.as_of)), (vec![json!(3), json!(2), json!(0)], at(5)));
    assert_eq!(Value::from(aggregated.windows[1].max_timestamp.clone()), at(5));
    let after = &aggregated.windows[2];
    assert_eq!([&after.min_timestamp, &after.max_timestamp].map(|text| Value::from(text.clone())), [at(4), at(1)]);
}

#[test]
fn a_window_that_lacks_items_reports_the_reason() {
    let items = [(0, "1"), (5, "2"), (9, "3"), (15, "4"), (25, "5")];
    let body = count_in(&json!(["6s", "10s", "20s", "30s"]));
    let shown = |case: &Case| {
        let aggregated = case.aggregated(&body, &items);
        let shown = aggregated.windows.iter().map(|window| {
            (window.results.as_ref().unwrap()["n"].as_u64().unwrap(), window.reason.clone().unwrap_or_default())
        });
        (aggregated.items_read, shown.collect::<Vec<_>>())
    };
    let reported = |pairs: [(u64, &str); 4]| pairs.map(|(count, reason)| (count, reason.to_owned())).to_vec();
    let case = Case::of(ValueType::Int64);
    assert_eq!(shown(&case), (5, reported([(2, ""), (3, ""), (4, ""), (5, "")])));
    let case = Case { ttl: Ttl::from_secs(20).unwrap(), ..case };
    assert_eq!(shown(&case), (4, reported([(2, ""), (3, ""), (4, ""), (4, "ttl")])));
    let case = Case { max_items: Some(3), ..case };
    assert_eq!(shown(&case), (3, reported([(2, ""), (3, "max_items"), (3, "max_items"), (3, "ttl")])));
    let case = Case { max_items: Some(5), ttl: Ttl::MAX, ..case };
    assert_eq!(shown(&case).1[3], (5, "max_items".to_owned()));
    let case = Case { max_items: Some(6), ..case };
    assert_eq!(shown(&case).1[3], (5, String::new()));
    let case = Case { items_max: 3, ..case };
    assert_eq!(shown(&case), (3, reported([(2, ""), (3, ""), (3, "items_max"), (3, "items_max")])));
    let case = Case { items_max: 5, ..case };
    assert_eq!(shown(&case), (5, reported([(2, ""), (3, ""), (4, ""), (5, "")])));
}

const FUNCTIONS: [&str; 10] =
    ["count", "count_distinct", "sum", "mean", "min", "max", "stddev", "first", "last", "top"];

/// Every function of the values, or of a property.
fn every_function(property: Option<&str>) -> Vec<Value> {
    let aggregate = |function: &&str| match property {
        Some(property) => json!({"name": format!("{function} {property}"), "function": function, "property": property}),
        None => json!({"name": function, "function": function}),
    };
    FUNCTIONS.iter().map(aggregate).collect()
}

/// Windows that share their work have the results that each has alone: nested ones, overlapping ones, ones next to each
/// other, equal ones, and ones without an item. Items share timestamps at their bounds.
#[test]
fn windows_do_not_depend_on_each_other() {
    let between = |oldest: u64, newest: u64| json!({"min_timestamp": at(oldest), "max_timestamp": at(newest)});
    let windows = [
        json!("10s"),
        json!("40s"),
        json!("1s"),
        between(40, 10),
        between(30, 5),
        between(20, 20),
        between(9, 0),
        between(19, 11),
        between(40, 10),
        between(1_000, 41),
        between(1_000, 900),
        json!("40s"),
        between(17, 16),
    ];
    let ages: Vec<_> = (0..50)
        .flat_map(|age| vec![age; if age % 10 == 0 { 3 } else { usize::from(age != 16 && age != 17) }])
        .collect();
    let numbers = |n: usize| match n % 7 {
        0 => "-0".to_owned(),
        1 => format!("{}", 1_u64 << 52),
        2 => format!("-{}", n % 3),
        3 => format!("{}.25", n % 4),
        _ => format!("{}", n % 5),
    };
    let ints: Vec<_> =
        (0..ages.len()).map(|n| if n % 9 == 0 { "-7".into() } else { format!("{}", n * n % 13) }).collect();
    let doubles: Vec<_> = (0..ages.len()).map(numbers).collect();
    let texts: Vec<_> = (0..ages.len()).map(|n| format!("\"{}{n}\"", "-".repeat(n * 5 % 30))).collect();
    let objects: Vec<_> = (0..ages.len())
        .map(|n| match n % 5 {
            0 => format!(r#"{{"b":{},"g":"{}"}}"#, numbers(n), n % 3),
            1 => format!(r#"{{"a":"{}","b":"{n}"}}"#, n % 4),
            2 => format!(r#"{{"a":{},"b":null,"g":{}}}"#, numbers(n), n % 2),
            3 => format!(r#"{{"a":{},"b":{},"g":null}}"#, numbers(n), n % 3),
            _ => "7".to_owned(),
        })
        .collect();
    let of_objects = [every_function(Some("/a")), every_function(Some("/b"))].concat();
    let of_texts: Vec<_> = every_function(None)
        .into_iter()
        .filter(|of| ["count", "count_distinct", "first", "last", "top"].contains(&of["function"].as_str().unwrap()))
        .collect();
    let json = ValueType::Json;
    for (value_type, values, aggregates, others) in [
        (ValueType::Int64, &ints, every_function(None), json!({})),
        (ValueType::Int64, &ints, every_function(None), json!({"group_by": {"max_groups": 3}})),
        (ValueType::Double, &doubles, every_function(None), json!({})),
        (ValueType::Double, &doubles, every_function(None), json!({"where": {"in": [0, -1, 0.25]}})),
        (ValueType::String, &texts, of_texts, json!({})),
        (json, &objects, of_objects[..16].to_vec(), json!({})),
        (json, &objects, of_objects[4..].to_vec(), json!({"where": {"property": "/g", "in": ["1", null, 0]}})),
        (json, &objects, of_objects[2..18].to_vec(), json!({"group_by": {"property": "/g", "max_groups": 2}})),
    ] {
        let items: Vec<_> = ages.iter().copied().zip(values.iter().map(String::as_str)).collect();
        let shown = |windows: &[Value]| {
            let mut body = others.clone();
            body["windows"] = windows.into();
            body["aggregates"] = aggregates.clone().into();
            Case::of(value_type).aggregated(&body, &items).windows
        };
        let together = shown(&windows);
        for (window, found) in windows.iter().zip(&together) {
            assert_eq!(
                shown(std::slice::from_ref(window)),
                std::slice::from_ref(found),
                "{value_type} {window} {others}"
            );
        }
        // Windows with the same bounds.
        assert_eq!((&together[3].results, &together[3].groups), (&together[8].results, &together[8].groups));
        assert_eq!(together[1], together[11]);
    }
}

#[test]
fn windows_without_an_item_have_no_values() {
    let body = json!({"windows": ["1s", "4s", {"min_timestamp": at(9), "max_timestamp": at(6)}, "1h"], "aggregates": every_function(None)});
    let results = Case::of(ValueType::Double).results(&body, &[(5, "1.5"), (10, "2.5")]);
    let nothing = json!({"count": 0, "count_distinct": 0, "sum": 0, "mean": null, "min": null, "max": null,
                         "stddev": null, "first": null, "last": null, "top": []});
    assert_eq!(results[..3], [nothing.clone(), nothing.clone(), nothing.clone()]);
    assert_eq!((&results[3]["count"], &results[3]["first"]), (&json!(2), &json!(2.5)));
    assert_eq!(Case::of(ValueType::Double).results(&body, &[]), vec![nothing; 4]);
}

#[test]
fn the_zeros_are_one_value() {
    for (value_type, property) in [(ValueType::Double, None), (ValueType::Json, None), (ValueType::Json, Some("/a"))] {
        let zeros =
            ["0", "-0", "0.0", "-0.0"].map(|zero| property.map_or(zero.into(), |_| format!(r#"{{"a":{zero}}}"#)));
        let items: Vec<_> = (1..).zip(zeros.iter().map(String::as_str)).collect();
        let body = json!({"windows": ["1h"], "aggregates": every_function(property)});
        let results = Case::of(value_type).results(&body, &items).remove(0);
        let of = |function: &str| results[property.map_or(function.into(), |at| format!("{function} {at}"))].clone();
        assert_eq!((of("count"), of("count_distinct")), (json!(4), json!(1)), "{value_type}");
        for function in ["sum", "mean", "min", "max", "stddev", "first", "last"] {
            let zero = of(function).as_f64().unwrap();
            assert!(zero == 0.0 && zero.is_sign_positive(), "{function} {value_type}");
        }
        assert_eq!(of("top").as_array().unwrap().len(), 1);
    }
}

#[test]
fn every_function_of_integers() {
    let body = json!({"windows": ["1h", "2s"], "aggregates": every_function(None)});
    let items = [(5, "7"), (6, "-9223372036854775808"), (7, "9223372036854775807"), (8, "7")];
    let results = Case::of(ValueType::Int64).results(&body, &items);
    assert_eq!(results[0]["sum"], json!(13));
    assert_eq!((&results[0]["min"], &results[0]["max"]), (&json!(i64::MIN), &json!(i64::MAX)));
    assert_eq!((&results[0]["first"], &results[0]["last"]), (&json!(7), &json!(7)));
    assert_eq!((&results[0]["count"], &results[0]["count_distinct"]), (&json!(4), &json!(3)));
    assert_eq!(results[0]["mean"], json!(3.25));
    let top = json!([{"value": 7, "count": 2}, {"value": i64::MIN, "count": 1}, {"value": i64::MAX, "count": 1}]);
    assert_eq!(results[0]["top"], top);
    let nothing = json!({"count": 0, "count_distinct": 0, "sum": 0, "mean": null, "min": null, "max": null,
                         "stddev": null, "first": null, "last": null, "top": []});
    assert_eq!(results[1], nothing);
}

#[test]
fn a_sum_beyond_its_type_is_refused_and_not_wrong() {
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "n", "function": "count"}, {"name": "s", "function": "sum"}]});
    let refused = Err(AggregateFailure::OutOfRange { aggregate: 1 });
    let outcome = |value_type, items: &[(u64, &str)]| Case::of(value_type).run(&body, items).result.map(|_| ());
    let max = "9223372036854775807";
    assert_eq!(outcome(ValueType::Int64, &[(1, max), (2, "1")]), refused);
    assert_eq!(outcome(ValueType::Int64, &[(1, max), (2, "1"), (3, "-1")]), Ok(()));
    assert_eq!(outcome(ValueType::Double, &[(1, "1e308"), (2, "1e308")]), refused);
    assert_eq!(outcome(ValueType::Double, &[(1, "1e308"), (2, "1e308"), (3, "-1e308")]), Ok(()));
    assert_eq!(outcome(ValueType::Json, &[(1, "1e308"), (2, "1e308")]), refused);
}

#[test]
fn items_without_the_property_are_skipped_once_each() {
    let body = json!({"windows": ["1h"], "aggregates": [
        {"name": "n", "function": "count"},
        {"name": "a", "function": "count", "property": "/a"},
        {"name": "s", "function": "sum", "property": "/a"},
        {"name": "m", "function": "max", "property": "/a"},
        {"name": "l", "function": "last", "property": "/a"},
    ]});
    let items =
        [(1, "7"), (2, r#"{"a":null}"#), (3, r#"{"a":"x"}"#), (4, r#"{"a":2}"#), (5, r#"{"a":0.5}"#), (6, "{}")];
    let aggregated = Case::of(ValueType::Json).aggregated(&body, &items);
    let results = serde_json::to_value(&aggregated.windows[0].results).unwrap();
    assert_eq!(results, json!({"n": 6, "a": 4, "s": 2.5, "m": 2, "l": null}));
    assert_eq!(aggregated.windows[0].skipped, 4);
}

#[test]
fn filtered_items_are_read_and_do_not_count() {
    let mut body = count_in(&json!(["1h"]));
    body["where"] = json!({"property": "/c", "in": ["NO", 1.0, {"y": 2, "x": 1}]});
    let items =
        [(1, r#"{"c":"NO"}"#), (2, r#"{"c":"SE"}"#), (3, r#"{"c":1}"#), (4, r#"{"c":{"x":1,"y":2}}"#), (5, "7")];
    let aggregated = Case::of(ValueType::Json).aggregated(&body, &items);
    let window = &aggregated.windows[0];
    assert_eq!((&window.results.as_ref().unwrap()["n"], window.skipped, aggregated.items_read), (&json!(3), 0, 5));
}

#[test]
fn groups_beyond_the_bound_become_one() {
    let body = json!({"windows": ["10s", "1h"], "group_by": {"property": "/g", "max_groups": 2}, "aggregates": [
        {"name": "d", "function": "count_distinct", "property": "/v"},
        {"name": "s", "function": "sum", "property": "/v"},
        {"name": "t", "function": "top", "k": 1, "property": "/v"},
        {"name": "f", "function": "first", "property": "/v"},
        {"name": "l", "function": "last", "property": "/v"},
        {"name": "x", "function": "max", "property": "/v"},
        {"name": "w", "function": "stddev", "property": "/v"},
    ]});
    let items = [
        (1, r#"{"g":"b","v":1}"#),
        (2, r#"{"g":"b","v":1}"#),
        (3, r#"{"g":"a","v":5}"#),
        (4, r#"{"g":3,"v":7}"#),
        (11, r#"{"g":"c","v":7}"#),
        (12, r#"{"v":9}"#),
        (13, r#"{"g":null,"v":8}"#),
    ];
    let windows = Case::of(ValueType::Json).aggregated(&body, &items).windows;
    let groups = |window: usize| serde_json::to_value(&windows[window].groups).unwrap();
    let b = json!({"value": "b", "count": 2, "results": {"d": 1, "s": 2, "t": [{"value": 1, "count": 2}], "f": 1, "l": 1, "x": 1, "w": 0.0}});
    let three = json!({"value": 3, "count": 1, "results": {"d": 1, "s": 7, "t": [{"value": 7, "count": 1}], "f": 7, "l": 7, "x": 7, "w": 0.0}});
    let a = json!({"other": true, "count": 1, "results": {"d": 1, "s": 5, "t": [{"value": 5, "count": 1}], "f": 5, "l": 5, "x": 5, "w": 0.0}});
    assert_eq!(groups(0), json!([b, three, a]));
    // Of equal counts, null comes first, and numbers before strings.
    let null = json!({"value": null, "count": 1, "results": {"d": 1, "s": 8, "t": [{"value": 8, "count": 1}], "f": 8, "l": 8, "x": 8, "w": 0.0}});
    let others = groups(1);
    assert_eq!((&others[0], &others[1]), (&b, &null));
    let deviation = others[2]["results"]["w"].as_f64().unwrap();
    assert!((deviation - (8.0_f64 / 9.0).sqrt()).abs() < 1e-12, "{deviation}");
    assert_eq!(others[2]["count"], json!(3));
    let results = &others[2]["results"];
    let shown = json!([results["d"], results["s"], results["t"], results["f"], results["l"], results["x"]]);
    assert_eq!(shown, json!([2, 19, [{"value": 7, "count": 2}], 7, 5, 7]));
    assert_eq!((windows[0].skipped, windows[1].skipped), (0, 1));
    assert!(windows[1].results.is_none());
}

#[test]
fn the_group_of_null_is_distinct_from_the_rest() {
    let mut body = count_in(&json!(["1h"]));
    body["group_by"] = json!({"max_groups": 1});
    let aggregated = Case::of(ValueType::Json).aggregated(&body, &[(1, "null"), (2, "null"), (3, "7")]);
    let groups = aggregated.windows[0].groups.as_ref().unwrap();
    assert_eq!((&groups[0].value, &groups[1].value), (&Some(Value::Null), &None));
    let read: Aggregated = serde_json::from_str(&serde_json::to_string(&aggregated).unwrap()).unwrap();
    assert_eq!(read, aggregated);
}

#[test]
fn a_hundred_thousand_groups_are_bounded() {
    let mut body = count_in(&json!(["1h"]));
    body["group_by"] = json!({"max_groups": 1_000});
    let values: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
    let items: Vec<_> = values.iter().map(|value| (1, value.as_str())).collect();
    let case = Case::of(ValueType::Int64);
    let groups = case.aggregated(&body, &items).windows.remove(0).groups.unwrap();
    let (shown, others) = groups.split_at(1_000);
    assert_eq!((&shown[999].value, shown[999].count), (&Some(json!(999)), 1));
    assert_eq!((others.len(), others[0].other, others[0].count), (1, true, 99_000));
    let case = Case { bytes_max: 1 << 20, ..case };
    assert_eq!(case.run(&body, &items).result.unwrap_err(), AggregateFailure::TooLarge);
}

#[test]
fn memory_is_bounded() {
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "d", "function": "count_distinct"}]});
    let texts: Vec<_> = (0..2_000).map(|n| format!("\"value {n:04}\"")).collect();
    let items: Vec<_> = texts.iter().map(|text| (1, text.as_str())).collect();
    let case = Case { bytes_max: 16 << 10, ..Case::of(ValueType::String) };
    let outcome = case.run(&body, &items);
    assert_eq!(outcome.result.unwrap_err(), AggregateFailure::TooLarge);
    assert!((100..2_000).contains(&outcome.items_read), "{}", outcome.items_read);
    let case = Case { bytes_max: 1 << 20, ..case };
    assert_eq!(case.results(&body, &items), [json!({"d": 2_000})]);
}

#[test]
fn results_that_repeat_values_are_bounded() {
    let top = |n: usize| json!({"name": n.to_string(), "function": "top", "k": 1_000});
    let body = json!({"windows": vec!["1h"; 16], "aggregates": (0..16).map(top).collect::<Vec<_>>()});
    let input = AggregateInput::read(body.to_string().as_bytes()).unwrap();
    let plan = Arc::new(Aggregation::new(&input, form(ValueType::String), 1_000).unwrap().within(1 << 20));
    let now = Timestamp::from_nanos(NOW * SECOND).unwrap();
    let op = OpContext::new(now, Ttl::MAX, Instant::now() + Duration::from_secs(60));
    let mut aggregator = Aggregator::new(&plan, &op, Identity::Item);
    for n in 0..100 {
        assert_eq!(aggregator.visit(NOW * SECOND, format!("{n:01000}").as_bytes()), Next::Wanted);
    }
    // The values have 100 kB, the results of each window 1.6 MB.
    aggregator.close(None);
    assert!(aggregator.windows.iter().all(|window| window.rendered.is_none()));
    assert_eq!(aggregator.finish().result.unwrap_err(), AggregateFailure::TooLarge);
}

#[test]
fn damaged_values_are_an_error() {
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "d", "function": "sum", "property": "/a"}]});
    let input = AggregateInput::read(body.to_string().as_bytes()).unwrap();
    let plan = Arc::new(Aggregation::new(&input, form(ValueType::Json), 10).unwrap());
    let now = Timestamp::from_nanos(NOW * SECOND).unwrap();
    let op = OpContext::new(now, Ttl::MAX, Instant::now() + Duration::from_secs(60));
    let mut aggregator = Aggregator::new(&plan, &op, Identity::Item);
    assert_eq!(aggregator.visit(NOW * SECOND, b"{\"a"), Next::Done);
    assert_eq!(aggregator.finish().result.unwrap_err(), AggregateFailure::Damaged);
}

#[test]
fn results_are_not_rendered_beyond_the_deadline() {
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "t", "function": "top", "k": 10}]});
    let input = AggregateInput::read(body.to_string().as_bytes()).unwrap();
    let plan = Arc::new(Aggregation::new(&input, form(ValueType::String), 10).unwrap());
    let now = Timestamp::from_nanos(NOW * SECOND).unwrap();
    let mut aggregator = Aggregator::new(&plan, &OpContext::new(now, Ttl::MAX, Instant::now()), Identity::Item);
    assert_eq!(aggregator.visit(NOW * SECOND, b"value"), Next::Wanted);
    assert_eq!(aggregator.finish().result.unwrap_err(), AggregateFailure::Late);
}

#[test]
fn several_tops_of_a_source_have_as_many_values_as_each_wants() {
    let top = |name: &str, k: usize| json!({"name": name, "function": "top", "k": k});
    let aggregates = json!([top("a", 1), top("b", 3), {"name": "d", "function": "count_distinct"}, top("c", 2)]);
    let body = json!({"windows": ["10s", "1h"], "aggregates": aggregates});
    let items = [(1, "5"), (2, "4"), (3, "4"), (20, "3"), (21, "5"), (22, "5")];
    let results = Case::of(ValueType::Int64).results(&body, &items);
    let shown = |pairs: &[(i64, u64)]| {
        Value::from_iter(pairs.iter().map(|(value, count)| json!({"value": value, "count": count})))
    };
    let (four, five) = ([(4, 2), (5, 1)], [(5, 3), (4, 2), (3, 1)]);
    assert_eq!(results[0], json!({"a": shown(&four[..1]), "b": shown(&four), "d": 2, "c": shown(&four)}));
    assert_eq!(results[1], json!({"a": shown(&five[..1]), "b": shown(&five), "d": 3, "c": shown(&five[..2])}));
}
