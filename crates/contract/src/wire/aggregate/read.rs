//! Reads the requested aggregates. Every refusal names the wrong member, such as `aggregates[2].function`.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Aggregate, AggregateFunction, AggregateInput, AggregateWindow, WindowBounds, WindowLength};
use crate::domain::{Invalid, NAMED_ITEMS_MAX};
use crate::wire::Problem;
use crate::wire::body;
use crate::wire::members::{check_bounds, many, parsed};
use crate::wire::refused::refuse;

impl AggregateInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let input: Self = body::read(body)?;
        input.check()?;
        Ok(input)
    }

    /// Refuses members that exclude each other.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        for (index, window) in self.windows.iter().enumerate() {
            if let AggregateWindow::Between(bounds) = window {
                let checked = check_bounds(Some(bounds.min_timestamp), Some(bounds.max_timestamp));
                checked.map_err(|problem| problem.within(&format!("windows[{index}]")))?;
            }
        }
        for (index, Aggregate { name, function, k, .. }) in self.aggregates.iter().enumerate() {
            if self.aggregates[..index].iter().any(|before| before.name == *name) {
                let detail = "another aggregate has this name: give each a different name";
                return Err(Problem::argument(format!("aggregates[{index}].name"), detail));
            }
            if k.is_some() && *function != AggregateFunction::Top {
                let detail = "only the function top has k: leave it out";
                return Err(Problem::argument(format!("aggregates[{index}].k"), detail));
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for AggregateWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherWindow)
    }
}

struct EitherWindow;

impl<'de> Visitor<'de> for EitherWindow {
    type Value = AggregateWindow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 1h, or an object with min_timestamp and max_timestamp")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AggregateWindow, E> {
        WindowLength::parse(text).map(AggregateWindow::Last).map_err(refuse)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<AggregateWindow, A::Error> {
        WindowBounds::deserialize(MapAccessDeserializer::new(object)).map(AggregateWindow::Between)
    }
}

/// The values of an array, as JSON texts.
pub(super) fn json_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = many::<NAMED_ITEMS_MAX, &'de RawValue, D>(deserializer)?;
    Ok(values.into_iter().map(|value| value.get().to_owned()).collect())
}

/// The name of an aggregate.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let parse = |text: &str| {
        let max = Aggregate::NAME_CHARS_MAX;
        let is_name = !text.is_empty() && text.chars().count() <= max;
        let refused = || Invalid::argument(format!("a name must have 1 to {max} characters"));
        is_name.then(|| text.to_owned()).ok_or_else(refused)
    };
    parsed(deserializer, parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;
    use crate::domain::index::Pointer;
    use crate::wire::{AggregateGroupBy, AggregateWhere};

    const COUNT: &str = r#"{"name":"n","function":"count"}"#;

    fn refused(body: &str) -> (&'static str, String) {
        let problem = AggregateInput::read(body.as_bytes()).unwrap_err();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    fn with_windows(windows: &str) -> String {
        format!(r#"{{"windows":{windows},"aggregates":[{COUNT}]}}"#)
    }

    fn with_aggregates(aggregates: &str) -> String {
        format!(r#"{{"windows":["1h"],"aggregates":{aggregates}}}"#)
    }

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let between = WindowBounds { min_timestamp: at(7), max_timestamp: at(7) };
        let top = Aggregate { k: Some(5), ..Aggregate::new("top", AggregateFunction::Top).of("/a~1b").unwrap() };
        let input = AggregateInput {
            windows: vec![AggregateWindow::last("90m").unwrap(), AggregateWindow::Between(between)],
            as_of: Some(at(9)),
            filter: Some(AggregateWhere {
                property: Pointer::new("/c").ok(),
                values: vec!["1.50".into(), "\"a\"".into()],
            }),
            group_by: Some(AggregateGroupBy { property: None, max_groups: Some(3) }),
            aggregates: vec![Aggregate::new("n", AggregateFunction::Count), top],
        };
        let sent = serde_json::to_vec(&input).unwrap();
        assert_eq!(AggregateInput::read(&sent).unwrap(), input, "{}", String::from_utf8_lossy(&sent));
        let bare = AggregateInput::new(vec![AggregateWindow::last("1s").unwrap()], input.aggregates[..1].to_vec());
        assert_eq!(AggregateInput::read(&serde_json::to_vec(&bare).unwrap()).unwrap(), bare);
    }

    #[test]
    fn every_refusal_of_a_window_names_it() {
        for (windows, field) in [
            ("[]", "windows"),
            ("{}", "windows"),
            (r#"["0s"]"#, "windows[0]"),
            (r#"["-1h"]"#, "windows[0]"),
            (r#"["1h",""]"#, "windows[1]"),
            (r#"["1h",3600]"#, "windows[1]"),
            (r#"["1h",null]"#, "windows[1]"),
            (r#"["7301d"]"#, "windows[0]"),
            (r#"["21y"]"#, "windows[0]"),
            (r#"["1 h"]"#, "windows[0]"),
            (r#"[{}]"#, "windows[0].min_timestamp"),
            (r#"[{"min_timestamp":1}]"#, "windows[0].max_timestamp"),
            (r#"[{"min_timestamp":1,"max_timestamp":[]}]"#, "windows[0].max_timestamp"),
            (r#"[{"min_timestamp":1,"min_timestamp":1,"max_timestamp":1}]"#, "windows[0].min_timestamp"),
            (r#"["1h",["1h"]]"#, "windows[1]"),
            (r#"["1h","\ud800"]"#, "windows[1]"),
            (r#"[{"min_timestamp":2,"max_timestamp":1}]"#, "windows[0].min_timestamp"),
            (r#"[{"min_timestamp":1,"max_timestamp":1,"x":1}]"#, "windows[0].x"),
        ] {
            assert_eq!(refused(&with_windows(windows)), ("invalid_argument", field.to_owned()), "{windows}");
        }
        let many = |n: usize| with_windows(&format!("[{}]", vec![r#""1h""#; n].join(",")));
        assert!(AggregateInput::read(many(16).as_bytes()).is_ok());
        assert_eq!(refused(&many(17)).1, "windows");
        let moment = with_windows(r#"[{"min_timestamp":"soon","max_timestamp":1}]"#);
        assert_eq!(refused(&moment), ("invalid_timestamp", "windows[0].min_timestamp".to_owned()));
    }

    #[test]
    fn every_refusal_of_an_aggregate_names_the_member() {
        for (aggregates, field) in [
            ("[]", "aggregates"),
            ("7", "aggregates"),
            ("[7]", "aggregates[0]"),
            ("[{}]", "aggregates[0].name"),
            (r#"[{"name":"","function":"count"}]"#, "aggregates[0].name"),
            (r#"[{"name":"n"}]"#, "aggregates[0].function"),
            (r#"[{"name":"n","function":"median"}]"#, "aggregates[0].function"),
            (r#"[{"name":"n","function":7}]"#, "aggregates[0].function"),
            (r#"[{"name":"n","function":"sum","property":"amount"}]"#, "aggregates[0].property"),
            (r#"[{"name":"n","function":"sum","property":"/a~2"}]"#, "aggregates[0].property"),
            (r#"[{"name":"n","function":"sum","property":null}]"#, "aggregates[0].property"),
            (r#"[{"name":"n","function":"sum","k":1}]"#, "aggregates[0].k"),
            (r#"[{"name":"n","function":"top","k":0}]"#, "aggregates[0].k"),
            (r#"[{"name":"n","function":"top","k":1001}]"#, "aggregates[0].k"),
            (r#"[{"name":"n","function":"top","l":1}]"#, "aggregates[0].l"),
            (r#"[{"name":"n","function":"count"},{"name":"n","function":"sum"}]"#, "aggregates[1].name"),
        ] {
            assert_eq!(refused(&with_aggregates(aggregates)), ("invalid_argument", field.to_owned()), "{aggregates}");
        }
        let named = |n: usize| (0..n).map(|n| format!(r#"{{"name":"{n}","function":"count"}}"#)).collect::<Vec<_>>();
        assert!(AggregateInput::read(with_aggregates(&format!("[{}]", named(16).join(","))).as_bytes()).is_ok());
        assert_eq!(refused(&with_aggregates(&format!("[{}]", named(17).join(",")))).1, "aggregates");
    }

    #[test]
    fn every_other_refusal_names_the_member() {
        for (member, field) in [
            (r#""as_of":true"#, "as_of"),
            (r#""where":[]"#, "where"),
            (r#""where":{}"#, "where.in"),
            (r#""where":{"in":[]}"#, "where.in"),
            (r#""where":{"in":[1],"property":"x"}"#, "where.property"),
            (r#""group_by":7"#, "group_by"),
            (r#""group_by":{"max_groups":0}"#, "group_by.max_groups"),
            (r#""group_by":{"max_groups":100000}"#, "group_by.max_groups"),
            (r#""group_by":{"by":1}"#, "group_by.by"),
            (r#""limit":7"#, "limit"),
        ] {
            let body = format!(r#"{{"windows":["1h"],"aggregates":[{COUNT}],{member}}}"#);
            assert_eq!(refused(&body), ("invalid_argument", field.to_owned()), "{member}");
        }
        assert_eq!(refused("{"), ("invalid_json", String::new()));
        assert_eq!(refused("{}").1, "windows");
        assert_eq!(refused(r#"{"windows":["1h"]}"#).1, "aggregates");
    }
}
