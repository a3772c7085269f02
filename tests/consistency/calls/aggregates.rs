//! The bodies of aggregations, and their answers.

use std::error::Error;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::times::{nanos, timestamp_json};
use crate::history::{
    Aggregated, Aggregates, AskedWindow, GROUP_MEMBER, Group, GroupBy, Groups, Outcome, Reason, Results, TOP_MAX,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireAggregates {
    as_of: String,
    windows: Vec<WireWindow>,
    items_read: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireWindow {
    #[serde(rename = "window")]
    _length: Option<String>,
    min_timestamp: String,
    max_timestamp: String,
    complete: bool,
    reason: Option<Reason>,
    results: Option<WireResults>,
    groups: Option<Vec<WireGroup>>,
    skipped: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireGroup {
    value: Option<Box<RawValue>>,
    #[serde(default)]
    other: bool,
    count: u64,
    results: WireResults,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireResults {
    count: u64,
    distinct: u64,
    top: Vec<WireFrequent>,
    first: Option<Box<RawValue>>,
    last: Option<Box<RawValue>>,
    sum: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFrequent {
    value: Box<RawValue>,
    count: u64,
}

/// The body of an aggregation.
pub fn aggregate_json(windows: &[AskedWindow], is_of_numbers: bool, group_by: Option<GroupBy>) -> String {
    let window = |window: &AskedWindow| match window {
        AskedWindow::Last { secs } => format!("\"{secs}s\""),
        AskedWindow::Between { min, max } => {
            format!(r#"{{"min_timestamp":{},"max_timestamp":{}}}"#, timestamp_json(*min), timestamp_json(*max))
        }
    };
    let mut aggregates = vec![
        json!({"name": "count", "function": "count"}),
        json!({"name": "distinct", "function": "count_distinct"}),
        json!({"name": "top", "function": "top", "k": TOP_MAX}),
        json!({"name": "first", "function": "first"}),
        json!({"name": "last", "function": "last"}),
    ];
    aggregates.extend(is_of_numbers.then(|| json!({"name": "sum", "function": "sum"})));
    let grouping = group_by.map(|GroupBy { by_member, max_groups }| match by_member {
        true => json!({"property": format!("/{GROUP_MEMBER}"), "max_groups": max_groups}),
        false => json!({"max_groups": max_groups}),
    });
    let grouping = grouping.map_or_else(String::new, |grouping| format!(r#","group_by":{grouping}"#));
    let windows: Vec<String> = windows.iter().map(window).collect();
    format!(r#"{{"windows":[{}],"aggregates":{}{grouping}}}"#, windows.join(","), json!(aggregates))
}

/// The aggregates of each window, by groups if these were requested.
pub fn aggregated(body: &[u8], group_by: Option<GroupBy>) -> Result<Outcome, Box<dyn Error>> {
    let WireAggregates { as_of, windows, items_read } = serde_json::from_slice(body)?;
    let windows = windows.into_iter().map(|window| read_window(window, group_by)).collect::<Result<_, _>>()?;
    Ok(Outcome::Aggregated(Aggregates { as_of: nanos(&as_of)?, windows, items_read }))
}

fn read_window(window: WireWindow, group_by: Option<GroupBy>) -> Result<Aggregated, Box<dyn Error>> {
    let WireWindow { min_timestamp, max_timestamp, complete, reason, results, groups, skipped, .. } = window;
    if complete != reason.is_none() {
        return Err(format!("complete is {complete}, and the reason {reason:?}").into());
    }
    let (min, max) = (nanos(&min_timestamp)?, nanos(&max_timestamp)?);
    let (results, groups) = match (results, groups, group_by) {
        (Some(results), None, None) => (read_results(results), None),
        (None, Some(groups), Some(by)) => {
            let shown = groups.into_iter().map(read_group).collect::<Result<Vec<_>, _>>()?;
            (Results::of_all(shown.iter().map(|group| &group.results)), Some(Groups { by, shown }))
        }
        _ => return Err("a window has groups if they were requested, and otherwise results".into()),
    };
    Ok(Aggregated { min, max, reason, skipped, results, groups })
}

fn read_group(WireGroup { value, other, count, results }: WireGroup) -> Result<Group, Box<dyn Error>> {
    if other == value.is_some() {
        return Err("a group has a value, or it is all other groups".into());
    }
    Ok(Group { value: value.map(text), count, results: read_results(results) })
}

fn read_results(WireResults { count, distinct, top, first, last, sum }: WireResults) -> Results {
    let values = top.into_iter().map(|frequent| (text(frequent.value), frequent.count)).collect();
    Results { count, distinct, values, first: first.map(text), last: last.map(text), sum }
}

fn text(value: Box<RawValue>) -> String {
    Box::<str>::from(value).into()
}
