//! `liststore list aggregate`: counts, sums and other aggregates of one list in windows of time.

use std::collections::HashSet;

use clap::Args;
use liststore_contract::operations::aggregate_items;
use serde_json::Value;

use super::{ListArguments, ServerOptions};
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Output};
use crate::cli::parse;
use crate::client::excerpt;
use crate::domain::Timestamp;
use crate::domain::index::Pointer;
use crate::wire::{
    Aggregate, AggregateFunction, AggregateGroupBy, AggregateInput, AggregateResults, AggregateWhere, AggregateWindow,
    Aggregated, WindowAggregates, WindowBounds,
};

/// Show counts, sums and other aggregates in windows of time
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list aggregate user payment u-1 --window 10m,1h,24h \\
    --count --sum /amount --top 5:/merchant
  liststore list aggregate user payment u-1 --window 24h \\
    --count --where /country=NO --group-by /category
  liststore list aggregate user score u-1 --window -7d..now --mean --stddev

A POINTER is a JSON Pointer. Without it, the whole value counts. A VALUE that is
JSON counts as JSON, so quote text that looks like it: --where '/zip=\"12345\"'
A window that may lack items has the reason in parentheses. A skipped item
lacks the property of at least one aggregate, or has another type there.")]
pub(super) struct Arguments {
    #[command(flatten)]
    list: ListArguments,
    /// Windows up to now such as 10m or 24h, or a start and an end: 2024-08-01..now
    #[arg(long = "window", value_name = "WINDOW", required = true, value_delimiter = ',', allow_hyphen_values = true)]
    windows: Vec<String>,
    /// The end of durations; no later item counts in any window [default: now, for durations]
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    as_of: Option<Timestamp>,
    /// Only items with this property, or =VALUE for the whole value; several values are allowed
    #[arg(long = "where", value_name = "POINTER=VALUE")]
    filters: Vec<String>,
    /// One line for each value
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    group_by: Option<String>,
    /// Number of groups; the rest is one group [default: 100]
    #[arg(long, value_name = "NUMBER", requires = "group_by")]
    max_groups: Option<usize>,
    #[command(flatten)]
    options: ServerOptions,
    #[command(flatten)]
    functions: Functions,
}

/// The computed aggregates. Each option may be given several times.
#[derive(Debug, Args)]
#[command(next_help_heading = "Aggregates")]
struct Functions {
    /// Number of items
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    count: Vec<String>,
    /// Number of different values
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    count_distinct: Vec<String>,
    /// Sum of numbers
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    sum: Vec<String>,
    /// Mean of numbers
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    mean: Vec<String>,
    /// Smallest number
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    min: Vec<String>,
    /// Largest number
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    max: Vec<String>,
    /// Standard deviation of the population
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    stddev: Vec<String>,
    /// Value of the oldest item
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    first: Vec<String>,
    /// Value of the newest item
    #[arg(long, value_name = "POINTER", num_args = 0..=1, default_missing_value = "")]
    last: Vec<String>,
    /// The most frequent values, and how many of them
    #[arg(long, value_name = "NUMBER[:POINTER]")]
    top: Vec<String>,
}

impl Functions {
    /// The aggregates, named by their function and property, in the order of the help page.
    fn aggregates(&self) -> Result<Vec<Aggregate>, String> {
        let of_properties = [
            (AggregateFunction::Count, &self.count),
            (AggregateFunction::CountDistinct, &self.count_distinct),
            (AggregateFunction::Sum, &self.sum),
            (AggregateFunction::Mean, &self.mean),
            (AggregateFunction::Min, &self.min),
            (AggregateFunction::Max, &self.max),
            (AggregateFunction::Stddev, &self.stddev),
            (AggregateFunction::First, &self.first),
            (AggregateFunction::Last, &self.last),
        ];
        let mut names = HashSet::new();
        let mut named = |function: AggregateFunction, property: &str, k: Option<usize>| {
            let name = if property.is_empty() { function.to_string() } else { format!("{function} {property}") };
            let name = unique(&name, &mut names);
            Ok::<_, String>(Aggregate { property: pointer(property)?, k, ..Aggregate::new(&name, function) })
        };
        let mut aggregates = Vec::new();
        for (function, properties) in of_properties {
            for property in properties {
                aggregates.push(named(function, property, None)?);
            }
        }
        for top in &self.top {
            let (k, property) = top.split_once(':').unwrap_or((top, ""));
            let k = k
                .parse()
                .map_err(|_| format!("--top: expected a number such as 5, or 5:/merchant, not {:?}", excerpt(top)))?;
            aggregates.push(named(AggregateFunction::Top, property, Some(k))?);
        }
        if aggregates.is_empty() {
            return Err("no aggregate given: pass --count, --sum or another option under Aggregates".to_owned());
        }
        Ok(aggregates)
    }
}

/// A name of at most the allowed length. A number at its end distinguishes it from the names before.
fn unique(name: &str, names: &mut HashSet<String>) -> String {
    let cut = |end: &str| name.chars().take(Aggregate::NAME_CHARS_MAX - end.len()).collect::<String>() + end;
    let mut short = cut("");
    for number in 2.. {
        if names.insert(short.clone()) {
            break;
        }
        short = cut(&format!(" ({number})"));
    }
    short
}

fn pointer(property: &str) -> Result<Option<Pointer>, String> {
    (!property.is_empty()).then(|| Pointer::new(property)).transpose().map_err(|invalid| invalid.to_string())
}

fn window(text: &str) -> Result<AggregateWindow, String> {
    match text.split_once("..") {
        Some((min, max)) => {
            let (min_timestamp, max_timestamp) = (parse::time(min)?, parse::time(max)?);
            Ok(AggregateWindow::Between(WindowBounds { min_timestamp, max_timestamp }))
        }
        None => AggregateWindow::last(text).map_err(|_| {
            format!(
                "--window: expected a duration such as 1h, or two times such as 2024-08-01..2024-08-02, not {:?}",
                excerpt(text)
            )
        }),
    }
}

/// Values as JSON, or else as text.
fn filter(filters: &[String]) -> Result<Option<AggregateWhere>, String> {
    let mut read: Option<AggregateWhere> = None;
    for filter in filters {
        let malformed = || {
            format!(
                "--where: expected POINTER=VALUE such as /country=NO, or =VALUE for the whole value, not {:?}",
                excerpt(filter)
            )
        };
        let (property, value) = filter.split_once('=').ok_or_else(malformed)?;
        let property = pointer(property)?;
        let is_json = serde_json::from_str::<Value>(value).is_ok();
        let value = if is_json { value.to_owned() } else { Value::from(value).to_string() };
        match &mut read {
            None => read = Some(AggregateWhere { property, values: vec![value] }),
            Some(first) if first.property == property => first.values.push(value),
            Some(_) => return Err("--where: all values must be of one property".to_owned()),
        }
    }
    Ok(read)
}

impl Arguments {
    fn input(&self) -> Result<AggregateInput, String> {
        let windows = self.windows.iter().map(|text| window(text)).collect::<Result<_, _>>()?;
        let group_by = match &self.group_by {
            Some(property) => Some(AggregateGroupBy { property: pointer(property)?, max_groups: self.max_groups }),
            None => None,
        };
        let filter = filter(&self.filters)?;
        let aggregates = self.functions.aggregates()?;
        Ok(AggregateInput { windows, as_of: self.as_of, filter, group_by, aggregates })
    }
}

pub(super) async fn aggregate(arguments: Arguments) -> Result<(), Failure> {
    let input = arguments.input().map_err(Failure::Usage)?;
    let client = arguments.options.server.client(None)?;
    let request = arguments.list.request(&aggregate_items::ROW).body(&input)?;
    let aggregated: Aggregated = client.ask(&request).await?;
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table => table(&mut output, "WINDOW", &input, &aggregated)?,
        Format::Json => output.json(&aggregated)?,
        Format::Ndjson => aggregated.windows.iter().try_for_each(|window| output.json(window))?,
    }
    output.flush()
}

/// Prints the aggregates, with this header of their windows.
pub(in crate::cli) fn table(
    output: &mut Output,
    windows: &str,
    input: &AggregateInput,
    aggregated: &Aggregated,
) -> Result<(), Failure> {
    let names: Vec<_> = input.aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
    let groups: &[&str] = if input.group_by.is_some() { &["GROUP", "ITEMS"] } else { &[] };
    let header = [&[windows][..], groups, &names[..]].concat();
    let rows: Vec<_> = aggregated.windows.iter().flat_map(|window| rows(window, &input.aggregates)).collect();
    output.table(&header, &rows)
}

/// The lines of a window: one, or one for each group.
fn rows(window: &WindowAggregates, aggregates: &[Aggregate]) -> Vec<Vec<String>> {
    let between = || format!("{}..{}", window.min_timestamp, window.max_timestamp);
    let mut label = window.window.clone().unwrap_or_else(between);
    let skipped = (window.skipped > 0).then(|| format!("{} skipped", window.skipped));
    let notes: Vec<_> = window.reason.iter().cloned().chain(skipped).collect();
    if !notes.is_empty() {
        label = format!("{label} ({})", notes.join(", "));
    }
    let cells = |results: &AggregateResults| -> Vec<String> {
        let shown = |of: &Aggregate| results.get(&of.name).map_or_else(String::new, |result| cell(of.function, result));
        aggregates.iter().map(shown).collect()
    };
    let Some(groups) = &window.groups else {
        return window.results.iter().map(|results| [vec![label.clone()], cells(results)].concat()).collect();
    };
    if groups.is_empty() {
        // The window and its notes are shown, too, if no item has a group.
        let empty = aggregates.iter().map(|_| String::new());
        return vec![[label, String::new(), "0".to_owned()].into_iter().chain(empty).collect()];
    }
    let row = |group: &crate::wire::GroupAggregates| {
        let value = group.value.as_ref().map_or_else(|| "(other)".to_owned(), Value::to_string);
        [vec![label.clone(), value, group.count.to_string()], cells(&group.results)].concat()
    };
    groups.iter().map(row).collect()
}

/// A result in a line. The most frequent values have their counts in parentheses.
fn cell(function: AggregateFunction, result: &Value) -> String {
    let (AggregateFunction::Top, Value::Array(values)) = (function, result) else { return result.to_string() };
    let counted = |value: &Value| match (value.get("value"), value.get("count")) {
        (Some(value), Some(count)) => format!("{value} ({count})"),
        _ => value.to_string(),
    };
    values.iter().map(counted).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aggregate_has_its_own_name() {
        let mut names = HashSet::new();
        let long = "sum /".to_owned() + &"x".repeat(80);
        let made = ["count", "count", "count", &long, &long].map(|name| unique(name, &mut names));
        assert_eq!(made[..3], ["count", "count (2)", "count (3)"]);
        assert!(made[3..].iter().all(|name| name.chars().count() == Aggregate::NAME_CHARS_MAX), "{made:?}");
        assert!(made[4].ends_with("x (2)"), "{made:?}");
    }

    #[test]
    fn windows_are_durations_or_two_times() {
        assert_eq!(window("90m"), Ok(AggregateWindow::last("90m").unwrap()));
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let between =
            WindowBounds { min_timestamp: at("2024-08-01T00:00:00Z"), max_timestamp: at("2024-08-02T00:00:00Z") };
        assert_eq!(window("2024-08-01T00:00:00Z..2024-08-02T00:00:00Z"), Ok(AggregateWindow::Between(between)));
        for bad in ["", "0s", "1", "1h..", "..", "soon..now"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_most_frequent_values_have_counts() {
        let counted = serde_json::json!([{"value": "a", "count": 2}, {"value": null, "count": 1}]);
        assert_eq!(cell(AggregateFunction::Top, &counted), r#""a" (2), null (1)"#);
        assert_eq!(cell(AggregateFunction::Last, &counted), counted.to_string());
    }

    #[test]
    fn values_are_json_or_text() {
        let texts = |filters: &[&str]| {
            let filters: Vec<_> = filters.iter().map(|&filter| filter.to_owned()).collect();
            filter(&filters).map(|read| read.map(|read| read.values))
        };
        assert_eq!(
            texts(&["/c=NO", "/c=7", "/c=\"7\"", "/c=a=b"]).unwrap().unwrap(),
            ["\"NO\"", "7", "\"7\"", "\"a=b\""]
        );
        assert_eq!(texts(&["=7"]).unwrap().unwrap(), ["7"]);
        assert_eq!(texts(&[]), Ok(None));
        assert!(texts(&["/c"]).is_err() && texts(&["/c=1", "/d=1"]).is_err() && texts(&["c=1"]).is_err());
    }
}
