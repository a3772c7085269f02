//! The routes: which operation a method and a raw path ask for.
//!
//! Paths are decoded here and strictly, segment by segment: a web framework's path extractor decodes
//! lossily (`%FF` would become U+FFFD), so that two lists would become one. An encoded slash is part
//! of its segment.

use std::borrow::Cow;

use actix_web::http::Method;

use super::percent::decode;
use super::problem::{ErrorCode, Problem};

/// What a request asks for. The name is the operation's id in the OpenAPI document and its label in
/// metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    GetItems,
    AddItems,
    RemoveAllItems,
    RemoveItemsWithValue,
    ListFeatures,
    CreateFeature,
    GetFeature,
    UpdateFeature,
    DeleteFeature,
    GetHistory,
    CreateVersion,
    GetVersion,
    UpdateVersion,
    DeleteVersion,
    CreateBackup,
    Livez,
    Readyz,
    Metrics,
    OpenApi,
    /// Not an operation: the request was answered by what is known of its path.
    None,
}

impl Operation {
    pub const COUNT: usize = Self::None as usize + 1;

    pub fn name(self) -> &'static str {
        match self {
            Self::GetItems => "get_items",
            Self::AddItems => "add_items",
            Self::RemoveAllItems => "remove_all_items",
            Self::RemoveItemsWithValue => "remove_items_with_value",
            Self::ListFeatures => "list_features",
            Self::CreateFeature => "create_feature",
            Self::GetFeature => "get_feature",
            Self::UpdateFeature => "update_feature",
            Self::DeleteFeature => "delete_feature",
            Self::GetHistory => "get_history",
            Self::CreateVersion => "create_version",
            Self::GetVersion => "get_version",
            Self::UpdateVersion => "update_version",
            Self::DeleteVersion => "delete_version",
            Self::CreateBackup => "create_backup",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
            Self::Metrics => "metrics",
            Self::OpenApi => "openapi",
            Self::None => "none",
        }
    }

    /// Whether it may change what is stored.
    pub fn writes(self) -> bool {
        use Operation::*;
        matches!(
            self,
            AddItems
                | RemoveAllItems
                | RemoveItemsWithValue
                | CreateFeature
                | UpdateFeature
                | DeleteFeature
                | CreateVersion
                | UpdateVersion
                | DeleteVersion
        )
    }

    fn is_about_lists(self) -> bool {
        use Operation::*;
        matches!(self, GetItems | AddItems | RemoveAllItems | RemoveItemsWithValue)
    }

    fn is_health(self) -> bool {
        use Operation::*;
        matches!(self, Livez | Readyz | Metrics | OpenApi)
    }

    /// Every code that this operation may be answered with: what the OpenAPI document says of it.
    pub fn errors(self) -> Vec<ErrorCode> {
        use ErrorCode::*;
        use Operation::{
            AddItems, CreateFeature, CreateVersion, DeleteFeature, DeleteVersion, GetHistory, GetItems, GetVersion,
            ListFeatures, RemoveItemsWithValue, UpdateFeature, UpdateVersion,
        };
        if self.is_health() {
            // Metrics that cannot be rendered are the only thing that can go wrong.
            return if self == Operation::Metrics { vec![Internal] } else { vec![] };
        }
        if self == Operation::CreateBackup {
            return vec![
                InvalidJson,
                InvalidArgument,
                LocalOnly,
                BackupDirNotEmpty,
                BackupRunning,
                PayloadTooLarge,
                UnsupportedMediaType,
                BackupFailed,
                BackupUnsupported,
                Draining,
                DeadlineExceeded,
            ];
        }
        let mut errors = vec![InvalidArgument, Internal, MetadataUnavailable, DeadlineExceeded];
        if !matches!(self, ListFeatures | CreateFeature) {
            errors.push(FeatureNotFound);
        }
        if self.is_about_lists() {
            errors.extend([VersionNotFound, Overloaded, StoreUnavailable, Draining]);
        }
        if matches!(self, GetItems | ListFeatures | GetHistory) {
            errors.push(InvalidPageToken);
        }
        if self == GetItems {
            errors.push(InvalidTimestamp);
        }
        if matches!(
            self,
            AddItems | RemoveItemsWithValue | CreateFeature | UpdateFeature | CreateVersion | UpdateVersion
        ) {
            errors.extend([InvalidJson, PayloadTooLarge, UnsupportedMediaType]);
        }
        if matches!(self, AddItems | RemoveItemsWithValue) {
            errors.push(ValueTypeMismatch);
        }
        if self == AddItems {
            errors.push(InvalidTimestamp);
        }
        if matches!(self, AddItems | CreateFeature | UpdateFeature | CreateVersion | UpdateVersion) {
            errors.push(TtlTooLong);
        }
        if self == CreateFeature {
            errors.push(FeatureExists);
        }
        if self == CreateVersion {
            errors.push(VersionExists);
        }
        if matches!(self, GetVersion | UpdateVersion | DeleteVersion) {
            errors.push(VersionNotFound);
        }
        if matches!(self, UpdateVersion | DeleteVersion) {
            errors.push(DefaultVersion);
        }
        if matches!(self, UpdateFeature | DeleteFeature | UpdateVersion | DeleteVersion) {
            errors.push(EtagMismatch);
        }
        errors
    }
}

/// Something that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Items,
    ItemsRemove,
    Features,
    Feature,
    History,
    Versions,
    Version,
    Backups,
    Livez,
    Readyz,
    Metrics,
    OpenApi,
}

/// One line of the route table.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    /// The path, as the OpenAPI document writes it.
    pub path: &'static str,
    pub operation: Operation,
    resource: Resource,
}

macro_rules! routes {
    ($($method:literal $path:literal => $resource:ident, $operation:ident;)*) => {
        &[$(Route {
            method: $method, path: $path, operation: Operation::$operation, resource: Resource::$resource
        }),*]
    };
}

/// Every route that the server has.
pub const ROUTES: &[Route] = routes! {
    "GET" "/v1/lists/{entity_type}/{feature}/{entity_id}/items" => Items, GetItems;
    "POST" "/v1/lists/{entity_type}/{feature}/{entity_id}/items" => Items, AddItems;
    "DELETE" "/v1/lists/{entity_type}/{feature}/{entity_id}/items" => Items, RemoveAllItems;
    "POST" "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove" => ItemsRemove, RemoveItemsWithValue;
    "GET" "/v1/features" => Features, ListFeatures;
    "POST" "/v1/features" => Features, CreateFeature;
    "GET" "/v1/features/{entity_type}/{name}" => Feature, GetFeature;
    "PATCH" "/v1/features/{entity_type}/{name}" => Feature, UpdateFeature;
    "DELETE" "/v1/features/{entity_type}/{name}" => Feature, DeleteFeature;
    "GET" "/v1/features/{entity_type}/{name}/history" => History, GetHistory;
    "POST" "/v1/features/{entity_type}/{name}/versions" => Versions, CreateVersion;
    "GET" "/v1/features/{entity_type}/{name}/versions/{version}" => Version, GetVersion;
    "PATCH" "/v1/features/{entity_type}/{name}/versions/{version}" => Version, UpdateVersion;
    "DELETE" "/v1/features/{entity_type}/{name}/versions/{version}" => Version, DeleteVersion;
    "POST" "/v1/backups" => Backups, CreateBackup;
    "GET" "/livez" => Livez, Livez;
    "GET" "/readyz" => Readyz, Readyz;
    "GET" "/metrics" => Metrics, Metrics;
    "GET" "/openapi.json" => OpenApi, OpenApi;
};

impl Resource {
    fn operation(self, method: &str) -> Option<Operation> {
        // HEAD is GET without the content (RFC 9110, section 9.3.2): the connection leaves it out.
        let method = if method == "HEAD" { "GET" } else { method };
        ROUTES.iter().find(|route| route.resource == self && route.method == method).map(|route| route.operation)
    }

    /// The methods of the path, as `Allow` lists them (RFC 9110, section 10.2.1).
    fn allow(self) -> String {
        let mut methods: Vec<_> =
            ROUTES.iter().filter(|route| route.resource == self).map(|route| route.method).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.join(", ")
    }
}

/// The variable segments of a path, decoded, in the order of the path.
pub type Segments<'p> = [Cow<'p, str>; 3];

/// What a request was found to ask for.
#[derive(Debug)]
pub enum Found<'p> {
    Operation(Operation, Segments<'p>),
    /// `OPTIONS`: to be answered with these methods.
    Options(String),
}

/// The longest path has 6 segments.
const SEGMENTS_MAX: usize = 6;

/// Finds what a method and a raw, still encoded path ask for.
pub fn find<'p>(method: &Method, path: &'p str) -> Result<Found<'p>, Problem> {
    let nothing_here = || Problem::new(ErrorCode::NotFound, "there is nothing at this path: see /openapi.json");
    let mut segments: [Cow<'p, str>; SEGMENTS_MAX] = Default::default();
    let mut count = 0;
    for raw in path.strip_prefix('/').ok_or_else(nothing_here)?.split('/') {
        let segment = decode(raw).map_err(|reason| Problem::argument("path", format!("the path {reason}")))?;
        if let Some(place) = segments.get_mut(count) {
            *place = segment;
        }
        count += 1;
    }
    let (resource, variable) = resource_at(&segments, count).ok_or_else(nothing_here)?;
    match resource.operation(method.as_str()) {
        Some(operation) => {
            let variable = variable.map(|place| place.map(|at| std::mem::take(&mut segments[at])).unwrap_or_default());
            Ok(Found::Operation(operation, variable))
        }
        None if method == Method::OPTIONS => Ok(Found::Options(resource.allow())),
        None => Err(Problem::method_not_allowed(resource.allow())),
    }
}

/// The resource of some decoded segments, and the places of its variable ones.
fn resource_at(segments: &[Cow<'_, str>; SEGMENTS_MAX], count: usize) -> Option<(Resource, [Option<usize>; 3])> {
    let fixed: [&str; SEGMENTS_MAX] = std::array::from_fn(|at| &*segments[at]);
    Some(match fixed.get(..count)? {
        ["v1", "lists", _, _, _, "items"] => (Resource::Items, [Some(2), Some(3), Some(4)]),
        ["v1", "lists", _, _, _, "items:remove"] => (Resource::ItemsRemove, [Some(2), Some(3), Some(4)]),
        ["v1", "features"] => (Resource::Features, [None; 3]),
        ["v1", "features", _, _] => (Resource::Feature, [Some(2), Some(3), None]),
        ["v1", "features", _, _, "history"] => (Resource::History, [Some(2), Some(3), None]),
        ["v1", "features", _, _, "versions"] => (Resource::Versions, [Some(2), Some(3), None]),
        ["v1", "features", _, _, "versions", _] => (Resource::Version, [Some(2), Some(3), Some(5)]),
        ["v1", "backups"] => (Resource::Backups, [None; 3]),
        ["livez"] => (Resource::Livez, [None; 3]),
        ["readyz"] => (Resource::Readyz, [None; 3]),
        ["metrics"] => (Resource::Metrics, [None; 3]),
        ["openapi.json"] => (Resource::OpenApi, [None; 3]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(method: Method, path: &str) -> Result<(Operation, [String; 3]), ErrorCode> {
        match find(&method, path) {
            Ok(Found::Operation(operation, segments)) => Ok((operation, segments.map(Cow::into_owned))),
            Ok(Found::Options(_)) => Ok((Operation::None, Default::default())),
            Err(problem) => Err(problem.code),
        }
    }

    #[test]
    fn every_route_of_the_table_is_found() {
        for route in ROUTES {
            let found = operation(Method::from_bytes(route.method.as_bytes()).unwrap(), route.path);
            assert_eq!(found.map(|(operation, _)| operation), Ok(route.operation), "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn segments_are_decoded_one_by_one() {
        let (_, segments) = operation(Method::GET, "/v1/lists/user/seen/a%2Fb%20%C3%A9%2525/items").unwrap();
        assert_eq!(segments, ["user", "seen", "a/b é%25"]);
        let (found, segments) = operation(Method::POST, "/v1/lists/a/b/c/items%3Aremove").unwrap();
        assert_eq!((found, segments[2].as_str()), (Operation::RemoveItemsWithValue, "c"));
        let (found, segments) = operation(Method::GET, "/v1/features/a/b/versions/").unwrap();
        assert_eq!((found, segments[2].as_str()), (Operation::GetVersion, ""));
    }

    #[test]
    fn what_is_no_route_is_told_apart() {
        for path in
            ["/", "", "*", "/v1", "/v1/features/", "/v1/features/a", "/v2/features", "/livez/", "/v1/lists/a/b/c/d/e/f"]
        {
            assert_eq!(operation(Method::GET, path), Err(ErrorCode::NotFound), "{path}");
        }
        assert_eq!(operation(Method::PUT, "/v1/features"), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(operation(Method::GET, "/v1/lists/a/b/c/items:remove"), Err(ErrorCode::MethodNotAllowed));
        for path in ["/v1/lists/a/b/%FF/items", "/v1/lists/a/b/%C3/items", "/%2", "/%zz"] {
            assert_eq!(operation(Method::GET, path), Err(ErrorCode::InvalidArgument), "{path}");
        }
    }

    #[test]
    fn allow_names_the_methods_of_the_path() {
        let Err(problem) = find(&Method::PUT, "/v1/features") else { panic!("found") };
        assert_eq!(problem, Problem::method_not_allowed("GET, POST, HEAD, OPTIONS".to_owned()));
    }
}
