//! Requests as they are sent.

use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::aggregates::aggregate_json;
use super::times::{rfc3339, timestamp_json};
use crate::bags;
use crate::history::{Item, ListName, Order, Request, Special, ValueType, VersionName};

pub const ENTITY_TYPE: &str = "user";

pub struct Wire {
    pub method: Method,
    pub path_and_query: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn list_path(list: &ListName, rest: &str) -> String {
    let label = &list.version.label;
    let version = if label.is_empty() { String::new() } else { format!("?version={}", segment(label)) };
    format!("/v1/lists/{ENTITY_TYPE}/{}/{}/{rest}{version}", list.version.feature, segment(&list.entity))
}

fn version_path(version: &VersionName) -> String {
    let feature = format!("/v1/features/{ENTITY_TYPE}/{}", version.feature);
    if version.label.is_empty() { feature } else { format!("{feature}/versions/{}", segment(&version.label)) }
}

/// An array of items as they are sent.
pub fn items_json(items: &[Item]) -> String {
    let sent: Vec<String> = items
        .iter()
        .map(|Item { timestamp, value }| format!(r#"{{"timestamp":{},"value":{value}}}"#, timestamp_json(*timestamp)))
        .collect();
    format!("[{}]", sent.join(","))
}

pub fn with_parameters(mut path: String, parameters: &[(&str, Option<String>)]) -> String {
    for (name, value) in parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!("{name}={}", segment(value)));
    }
    path
}

/// `token` is the one of the previous page, if the request has an `after`.
pub fn wire(request: &Request, value_type: Option<ValueType>, token: Option<&str>) -> Wire {
    let wire = |method, path_and_query, body| Wire { method, path_and_query, headers: Vec::new(), body };
    match request {
        Request::Get { list, min, max, order, limit, .. } => {
            let order = match order {
                // The default is optional.
                Order::Newest => limit.filter(|limit| limit % 2 == 0).map(|_| "newest".to_owned()),
                Order::Oldest => Some("oldest".to_owned()),
            };
            let parameters = [
                ("min_timestamp", min.map(|min| min.to_string())),
                ("max_timestamp", max.map(rfc3339)),
                ("order", order),
                ("limit", limit.map(|limit| limit.to_string())),
                ("page_token", token.map(str::to_owned)),
            ];
            wire(Method::GET, with_parameters(list_path(list, "items"), &parameters), None)
        }
        Request::Count { list, min, max, limit } => {
            let max_items = limit.map(|limit| limit.to_string());
            let parameters = [
                ("min_timestamp", min.map(rfc3339)),
                ("max_timestamp", max.map(|max| max.to_string())),
                ("max", max_items),
            ];
            wire(Method::GET, with_parameters(list_path(list, "items:count"), &parameters), None)
        }
        Request::Contains { list, min, max, values } => {
            let parameters = [("min_timestamp", min.map(rfc3339)), ("max_timestamp", max.map(rfc3339))];
            let path = with_parameters(list_path(list, "items:contains"), &parameters);
            wire(Method::POST, path, Some(format!(r#"{{"values":[{}]}}"#, values.join(","))))
        }
        Request::Aggregate { list, windows, is_of_numbers, group_by } => {
            let body = aggregate_json(windows, *is_of_numbers, *group_by);
            wire(Method::POST, list_path(list, "items:aggregate"), Some(body))
        }
        Request::Lookup { list, values } => {
            let body = format!(r#"{{"values":[{}]}}"#, values.join(","));
            wire(Method::POST, list_path(list, "items:lookup"), Some(body))
        }
        Request::Add { list, items } => {
            let body = format!(r#"{{"items":{}}}"#, items_json(items));
            wire(Method::POST, list_path(list, "items"), Some(body))
        }
        Request::RemoveValue { list, value } => {
            wire(Method::POST, list_path(list, "items:remove"), Some(format!(r#"{{"value":{value}}}"#)))
        }
        Request::RemoveItems { list, items } => {
            let body = format!(r#"{{"items":{}}}"#, items_json(items));
            wire(Method::POST, list_path(list, "items:remove"), Some(body))
        }
        Request::RemoveBetween { list, min, max } => {
            let bound = |name, bound: &Option<u64>| bound.map(|at| format!(r#""{name}":{}"#, timestamp_json(at)));
            let bounds = [bound("min_timestamp", min), bound("max_timestamp", max)];
            let body = format!("{{{}}}", bounds.into_iter().flatten().collect::<Vec<_>>().join(","));
            wire(Method::POST, list_path(list, "items:remove"), Some(body))
        }
        Request::RemoveAll { list } => wire(Method::DELETE, list_path(list, "items"), None),
        Request::CreateFeature { feature, ttl_secs } => {
            let value_type = value_type.map_or("string", ValueType::as_str);
            let body = json!({"entity_type": ENTITY_TYPE, "name": feature, "value_type": value_type,
                              "ttl": format!("{ttl_secs}s")});
            wire(Method::POST, "/v1/features".to_owned(), Some(body.to_string()))
        }
        Request::CreateSpecial { feature, ttl_secs, special } => {
            let mut body = json!({"entity_type": ENTITY_TYPE, "name": feature, "value_type": "string",
                                  "ttl": format!("{ttl_secs}s")});
            match special {
                Special::Sets => body["identity"] = json!("value"),
                Special::Bounded(items) => body["max_items"] = json!(items),
            }
            wire(Method::POST, "/v1/features".to_owned(), Some(body.to_string()))
        }
        Request::DeleteFeature { feature } => {
            wire(Method::DELETE, format!("/v1/features/{ENTITY_TYPE}/{feature}"), None)
        }
        Request::CreateVersion { version, ttl_secs } => {
            let path = format!("/v1/features/{ENTITY_TYPE}/{}/versions", version.feature);
            let body = json!({"version": version.label, "ttl": format!("{ttl_secs}s")});
            wire(Method::POST, path, Some(body.to_string()))
        }
        Request::DeleteVersion { version } => wire(Method::DELETE, version_path(version), None),
        Request::ChangeTtl { version, ttl_secs } => {
            wire(Method::PATCH, version_path(version), Some(json!({"ttl": format!("{ttl_secs}s")}).to_string()))
        }
        Request::ReadTtl { version } => wire(Method::GET, version_path(version), None),
        Request::Bag(request) => bags::calls::wire(request, token),
    }
}
