//! The router: finds the operation of a method and a raw path in the table of operations.
//!
//! It decodes paths strictly, segment by segment. A web framework's path extractor decodes lossily: `%FF` would become
//! U+FFFD, so that two lists would become one. An encoded slash is part of its segment. Fixed segments are compared as
//! sent, except that their colon may be encoded. So code that reads a path without decoding it (classes under load, the
//! direct route) finds the same operation.

use std::borrow::Cow;
use std::sync::LazyLock;

use actix_web::http::Method;
use liststore_contract::row::Segment;

use crate::api::OperationId;
use crate::api::call::Segments;
use crate::api::percent::{cut, decode, is_encoded};
use crate::api::problem::{ErrorCode, Problem};
use crate::operations::OPERATIONS;

/// The largest number of segments of a path.
const SEGMENTS_MAX: usize = 6;

/// A path with its operations.
#[derive(Debug)]
struct Resource {
    path: &'static str,
    segments: Vec<Segment>,
    operations: Vec<(&'static str, OperationId)>,
}

/// In the order of the table, whose first path is the most frequent one.
static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let mut resources: Vec<Resource> = Vec::new();
    for (place, operation) in OPERATIONS.iter().enumerate() {
        let row = operation.row;
        let segments: Vec<_> = row.segments().collect();
        let entry = (row.method.as_str(), OperationId::new(place, row));
        match resources.iter_mut().find(|resource| resource.segments == segments) {
            Some(resource) => resource.operations.push(entry),
            None => resources.push(Resource { path: row.path, segments, operations: vec![entry] }),
        }
    }
    resources
});

impl Resource {
    /// Whether it matches the segments. `encoded` states that some character of them is encoded.
    fn fits(&self, segments: &[&str], encoded: bool) -> bool {
        self.segments.len() == segments.len()
            && self.segments.iter().zip(segments).all(|(expected, segment)| match expected {
                Segment::Fixed(text) => text == segment || encoded && is_with_encoded_colon(segment, text),
                Segment::Variable(_) => true,
            })
    }

    fn operation(&self, method: &str) -> Option<OperationId> {
        // HEAD is GET without the content, which the connection omits (RFC 9110, section 9.3.2).
        let method = if method == "HEAD" { "GET" } else { method };
        self.operations.iter().find(|(known, _)| *known == method).map(|(_, operation)| *operation)
    }

    /// The methods of the path, as `Allow` lists them (RFC 9110, section 10.2.1).
    fn allow(&self) -> String {
        let mut methods: Vec<_> = self.operations.iter().map(|(method, _)| *method).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.join(", ")
    }

    /// The variable segments of a matching path.
    fn variables<'p>(&self, segments: &mut [Cow<'p, str>]) -> Segments<'p> {
        let mut variables = Segments::default();
        let taken = self.segments.iter().zip(segments).filter(|(s, _)| matches!(s, Segment::Variable(_)));
        variables.iter_mut().zip(taken).for_each(|(variable, (_, segment))| *variable = std::mem::take(segment));
        variables
    }
}

/// Whether a segment is a fixed one with an encoded colon. Some clients encode it in all segments.
fn is_with_encoded_colon(segment: &str, fixed: &str) -> bool {
    let Some((before, behind)) = fixed.split_once(':') else { return false };
    let colon = segment.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    colon.is_some_and(|colon| colon.eq_ignore_ascii_case("%3A"))
}

/// The methods that a server accepts, for `OPTIONS *` (RFC 9110, section 9.3.7).
const ALL_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The result of routing a request.
#[derive(Debug)]
pub enum Route<'p> {
    Operation(OperationId, Segments<'p>),
    /// `OPTIONS`: the answer lists these methods.
    Options(String),
}

/// The refusal of an unknown path. It names the nearest path of the table, if one is near.
fn no_such_path(path: &str) -> Problem {
    let detail = nearest(path).map_or_else(
        || "no such path: see /openapi.json".to_owned(),
        |known| format!("no such path: did you mean {known}? All paths are in /openapi.json"),
    );
    Problem::new(ErrorCode::NotFound, detail)
}

/// The most likely intended path of the table.
fn nearest(path: &str) -> Option<&'static str> {
    let segments: Vec<_> = path.strip_prefix('/')?.split('/').take(SEGMENTS_MAX + 2).collect();
    // A long path must not cost more than a walk over the table.
    if segments.len() > SEGMENTS_MAX + 1 || segments.iter().any(|segment| segment.len() > MISTYPED_BYTES_MAX) {
        return None;
    }
    let alike = RESOURCES.iter().filter(|resource| resembles_a_fixed_segment(&resource.segments, &segments));
    let rated = alike.map(|resource| (distance(&resource.segments, &segments), resource.path));
    let (distance, known) = rated.min_by_key(|(distance, _)| *distance)?;
    (distance <= DISTANCE_MAX).then_some(known)
}

/// Whether a sent segment resembles a fixed one, other than the version of the API.
fn resembles_a_fixed_segment(known: &[Segment], sent: &[&str]) -> bool {
    let mut names = known.iter().filter(|expected| matches!(expected, Segment::Fixed(text) if *text != "v1"));
    names.any(|expected| sent.iter().any(|segment| replacement(*expected, segment) < FAR))
}

/// A longer segment is not a typing mistake.
const MISTYPED_BYTES_MAX: usize = 512;
/// The cost of a missing or a superfluous segment, in characters.
const SEGMENT_COST: usize = 3;
/// Paths with a greater distance are unrelated.
const DISTANCE_MAX: usize = 5;

/// The distance of two paths in characters and segments: the edit distance of their segments (Wagner and Fischer,
/// 1974).
fn distance(known: &[Segment], sent: &[&str]) -> usize {
    let cost_of = |segment: &str| if segment.is_empty() { 1 } else { SEGMENT_COST };
    let mut row: Vec<usize> = Vec::with_capacity(sent.len() + 1);
    row.push(0);
    for segment in sent {
        row.push(row.last().copied().unwrap_or_default() + cost_of(segment));
    }
    for expected in known {
        let missing = if let Segment::Fixed(text) = expected { text.len().min(SEGMENT_COST) } else { SEGMENT_COST };
        let mut before = row[0];
        row[0] += missing;
        for (place, segment) in sent.iter().enumerate() {
            let replaced = before + replacement(*expected, segment);
            before = row[place + 1];
            row[place + 1] = replaced.min(before + missing).min(row[place] + cost_of(segment));
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The cost of reading a segment as another one. A fixed segment is unrelated if more than half of it differs.
fn replacement(expected: Segment, sent: &str) -> usize {
    match expected {
        Segment::Variable(_) => usize::from(sent.is_empty()) * SEGMENT_COST,
        Segment::Fixed(text) if sent.len() > 2 * text.len() => FAR,
        Segment::Fixed(text) => {
            let distance = strsim::osa_distance(text, sent);
            if 2 * distance <= text.len() { distance } else { FAR }
        }
    }
}

/// Greater than the distance to any nearest path.
const FAR: usize = 100;

/// Finds the operation of a method and a raw, still encoded path.
pub fn find<'p>(method: &Method, path: &'p str) -> Result<Route<'p>, Problem> {
    let nothing_here = || no_such_path(path);
    if path == "*" && method == Method::OPTIONS {
        return Ok(Route::Options(ALL_METHODS.to_owned()));
    }
    let mut segments: [Cow<'p, str>; SEGMENTS_MAX] = Default::default();
    let mut sent = [""; SEGMENTS_MAX];
    let mut count = 0;
    let mut rest = Some(path.strip_prefix('/').ok_or_else(nothing_here)?);
    // Checked once instead of in each segment.
    let encoded = is_encoded(path);
    while let Some(text) = rest {
        let (raw, others) = cut(text, b'/');
        rest = others;
        let segment = if encoded {
            decode(raw).map_err(|reason| Problem::argument("path", format!("the path {reason}")))?
        } else {
            Cow::Borrowed(raw)
        };
        if let Some((slot, sent)) = segments.get_mut(count).zip(sent.get_mut(count)) {
            (*slot, *sent) = (segment, raw);
        }
        count += 1;
    }
    let segments = segments.get_mut(..count).ok_or_else(nothing_here)?;
    let resource = RESOURCES.iter().find(|resource| resource.fits(&sent[..count], encoded)).ok_or_else(nothing_here)?;
    match resource.operation(method.as_str()) {
        Some(operation) => Ok(Route::Operation(operation, resource.variables(segments))),
        None if method == Method::OPTIONS => Ok(Route::Options(resource.allow())),
        None => Err(Problem::method_not_allowed(resource.allow())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::call::VARIABLES_MAX;

    fn operation(method: Method, path: &str) -> Result<(Option<&'static str>, [String; 3]), ErrorCode> {
        match find(&method, path) {
            Ok(Route::Operation(operation, segments)) => {
                Ok((Some(operation.row().name), segments.map(Cow::into_owned)))
            }
            Ok(Route::Options(_)) => Ok((None, Default::default())),
            Err(problem) => Err(problem.code),
        }
    }

    #[test]
    fn every_operation_of_the_table_is_found_with_its_segments() {
        for row in OPERATIONS.iter().map(|operation| operation.row) {
            let variables: Vec<_> = row.segments().filter(|s| matches!(s, Segment::Variable(_))).collect();
            assert!(row.segments().count() <= SEGMENTS_MAX && variables.len() <= VARIABLES_MAX, "{}", row.path);
            let path = row.path_of(&["a", "b", "c"]);
            let (found, segments) =
                operation(Method::from_bytes(row.method.as_str().as_bytes()).unwrap(), &path).unwrap();
            assert_eq!(found, Some(row.name), "{} {path}", row.method);
            assert_eq!(segments[..variables.len()], ["a", "b", "c"][..variables.len()], "{path}");
        }
    }

    #[test]
    fn segments_are_decoded_one_by_one() {
        let (_, segments) = operation(Method::GET, "/v1/lists/user/seen/a%2Fb%20%C3%A9%2525/items").unwrap();
        assert_eq!(segments, ["user", "seen", "a/b é%25"]);
        let (found, segments) = operation(Method::POST, "/v1/lists/a/b/c/items%3Aremove").unwrap();
        assert_eq!((found, segments[2].as_str()), (Some("remove_items"), "c"));
        let (found, _) = operation(Method::POST, "/v1/lists%3abatchGet").unwrap();
        assert_eq!(found, Some("batch_get"));
        let (found, segments) = operation(Method::GET, "/v1/features/a/b/versions/").unwrap();
        assert_eq!((found, segments[2].as_str()), (Some("get_version"), ""));
    }

    #[test]
    fn kinds_of_missing_routes_are_distinguished() {
        for path in
            ["/", "", "*", "/v1", "/v1/features/", "/v1/features/a", "/v2/features", "/livez/", "/v1/lists/a/b/c/d/e/f"]
        {
            assert_eq!(operation(Method::GET, path), Err(ErrorCode::NotFound), "{path}");
        }
        // Code that reads the path without decoding it would find another operation.
        for path in [
            "/%6Civez",
            "/%76%31/lists/a/b/c/items",
            "/v1/list%73/a/b/c/items",
            "/v1/lists/a/b/c/%69tems",
            "/v1/lists/a/b/c/items%2F",
            "/v1/entity-types/a/indexes/b/entitie%73",
        ] {
            assert_eq!(operation(Method::GET, path), Err(ErrorCode::NotFound), "{path}");
        }
        assert_eq!(operation(Method::POST, "/v1/lists/a/b/c/items%253Aremove"), Err(ErrorCode::NotFound));
        assert_eq!(operation(Method::POST, "/v1/lists/a/b/c/%69tems%3Aremove"), Err(ErrorCode::NotFound));
        assert_eq!(operation(Method::OPTIONS, "*"), Ok((None, Default::default())));
        assert_eq!(operation(Method::PUT, "/v1/features"), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(operation(Method::GET, "/v1/lists/a/b/c/items:remove"), Err(ErrorCode::MethodNotAllowed));
        for path in ["/v1/lists/a/b/%FF/items", "/v1/lists/a/b/%C3/items", "/%2", "/%zz"] {
            assert_eq!(operation(Method::GET, path), Err(ErrorCode::InvalidArgument), "{path}");
        }
    }

    #[test]
    fn a_mistyped_path_has_a_nearest_one() {
        let items = "/v1/lists/{entity_type}/{feature}/{entity_id}/items";
        for (path, expected) in [
            ("/v1/list/user/seen/u-1/items", items),
            ("/v1/lists/user/seen/u-1", items),
            ("/lists/user/seen/u-1/items", items),
            ("/v1/lists/user/seen/u-1/item", items),
            ("/v1/lists/user/seen/u-1/items/", items),
            ("/v1/lists/user/seen/u-1/items:remve", "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove"),
            ("/v1/feature", "/v1/features"),
            ("/v1/features/", "/v1/features"),
            ("/v2/features", "/v1/features"),
            ("/features", "/v1/features"),
            ("/v1/features/user/seen/version", "/v1/features/{entity_type}/{name}/versions"),
            ("/v1/entitytypes/user", "/v1/entity-types/{entity_type}"),
            ("/livez/", "/livez"),
            ("/openapi", "/openapi.json"),
        ] {
            assert_eq!(nearest(path), Some(expected), "{path}");
        }
        let long = format!("/v1/features/{}", "x".repeat(MISTYPED_BYTES_MAX + 1));
        for path in [
            "/",
            "/v1/nothing",
            "/favicon.ico",
            "/robots.txt",
            "/wp-admin/setup.php",
            "/v1",
            "*",
            "/a/b/c/d/e/f/g/h/i",
            &long,
        ] {
            assert_eq!(nearest(path), None, "{path}");
        }
    }

    #[test]
    fn the_methods_of_the_server_are_those_of_all_operations() {
        for row in OPERATIONS.iter().map(|operation| operation.row) {
            assert!(ALL_METHODS.split(", ").any(|method| method == row.method.as_str()), "{}", row.method.as_str());
        }
    }

    #[test]
    fn allow_names_the_methods_of_the_path() {
        let Err(problem) = find(&Method::PUT, "/v1/features") else { panic!("found") };
        assert_eq!(problem, Problem::method_not_allowed("GET, POST, HEAD, OPTIONS".to_owned()));
    }
}
