//! What is said of an operation, once: the form of the rows in [`super::table`].

use std::fmt;

use super::OperationId;
use crate::access::{Permission, Resource};
use crate::wire::parameters::Parameter;
use crate::wire::{ErrorCode, Type};

/// What everybody but the operation's own function needs to know of it.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    pub id: OperationId,
    /// Its id in the OpenAPI document, and its label in metrics and logs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What is not obvious from that line; may be empty.
    pub description: &'static str,
    pub group: Group,
    pub permission: Permission,
    pub effect: Effect,
    pub method: Method,
    /// The path, with its variable segments in braces.
    pub path: &'static str,
    pub query: &'static [Parameter],
    pub headers: &'static [Parameter],
    pub request: Option<Type>,
    /// The replies of success, and those that are no problem: the first is the usual one.
    pub replies: &'static [ReplyForm],
    /// Every code that it may be refused or fail with, in sets that operations share.
    pub errors: &'static [&'static [ErrorCode]],
}

/// What operations are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Lists,
    Features,
    Versions,
    Entities,
    Access,
    Operations,
    Health,
}

/// What carrying an operation out does to what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    /// Writes; doing it twice is as good as doing it once, its reply included.
    RepeatableWrite,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// A reply that is no problem.
#[derive(Debug, Clone, Copy)]
pub struct ReplyForm {
    pub status: u16,
    pub description: &'static str,
    pub content: Option<Content>,
    pub headers: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy)]
pub enum Content {
    Json(Type),
    /// JSON, or lines of JSON (NDJSON) for those who ask for them.
    JsonOrLines(Type),
    /// Text, of this media type.
    Text(&'static str),
}

impl Group {
    pub const ALL: [Self; 7] =
        [Self::Lists, Self::Features, Self::Versions, Self::Entities, Self::Access, Self::Operations, Self::Health];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::Features => "features",
            Self::Versions => "versions",
            Self::Entities => "entities",
            Self::Access => "access",
            Self::Operations => "operations",
            Self::Health => "health",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Lists => "The data plane: items of lists.",
            Self::Features => "The control plane: list features and their history.",
            Self::Versions => "The control plane: versions of list features.",
            Self::Entities => "Property bags of entities, and entity types.",
            Self::Access => "API keys and the audit trail.",
            Self::Operations => {
                "For operators: the pool of list actors, the log and, on the server's machine, backups."
            }
            Self::Health => "For probes and scrapers.",
        }
    }
}

impl Effect {
    /// Whether it may change what is stored.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Whether doing it twice is as good as doing it once.
    pub fn is_repeatable(self) -> bool {
        self != Self::Write
    }
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A segment of a path's template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    Fixed(&'static str),
    /// Its name.
    Variable(&'static str),
}

impl Descriptor {
    pub fn errors(&self) -> impl Iterator<Item = ErrorCode> {
        self.errors.iter().flat_map(|set| set.iter().copied())
    }

    /// Whether its body is a merge patch (RFC 7396), and may say so.
    pub fn takes_merge_patch(&self) -> bool {
        self.id == OperationId::PatchBag
    }

    /// Whether it reads or changes items, so that a caller's limit of items bounds it.
    pub fn counts_items(&self) -> bool {
        use OperationId::{CancelJob, CleanIndexes, PauseJob, PurgeEntityType, PurgeFeature, ResumeJob, UpdateJob};
        let is_of_jobs = matches!(
            self.id,
            CancelJob | CleanIndexes | PauseJob | PurgeEntityType | PurgeFeature | ResumeJob | UpdateJob
        );
        matches!(self.permission, Permission::ListsRead | Permission::ListsWrite) && !is_of_jobs
    }

    pub fn takes_header(&self, header: &Parameter) -> bool {
        self.headers.iter().any(|taken| taken.name == header.name)
    }

    /// What it is about, as far as the variable segments of its path tell.
    pub fn resource<'r>(&self, variables: [&'r str; 2]) -> Resource<'r> {
        // Each request comes by here, and nearly all are about lists: their paths are not taken apart.
        if self.path.starts_with("/v1/lists/{entity_type}/{feature}/") {
            return Resource::Feature { entity_type: variables[0], feature: variables[1] };
        }
        let mut names = self.segments().filter_map(|segment| match segment {
            Segment::Variable(name) => Some(name),
            Segment::Fixed(_) => None,
        });
        match (self.permission, names.next(), names.next()) {
            (_, Some("entity_type"), Some("feature" | "name")) => {
                Resource::Feature { entity_type: variables[0], feature: variables[1] }
            }
            (_, Some("entity_type"), _) => Resource::EntityType(variables[0]),
            (
                Permission::ListsRead | Permission::ListsWrite | Permission::FeaturesRead | Permission::FeaturesWrite,
                ..,
            ) => Resource::SomeFeatures,
            _ => Resource::Whole,
        }
    }

    /// The template of the path, segment by segment.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        self.path.trim_start_matches('/').split('/').map(|segment| {
            match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => Segment::Variable(name),
                None => Segment::Fixed(segment),
            }
        })
    }

    /// The path with these variable segments, each percent-encoded.
    pub fn path_of(&self, variables: &[&str]) -> String {
        let mut variables = variables.iter();
        let mut path = String::new();
        for segment in self.segments() {
            path.push('/');
            match segment {
                Segment::Fixed(text) => path.push_str(text),
                Segment::Variable(_) => {
                    path.extend(percent_encoding::utf8_percent_encode(variables.next().unwrap_or(&""), SEGMENT));
                }
            }
        }
        path
    }

    /// What stands before and behind the last variable segment of the path, for whoever writes many
    /// paths that differ in it alone.
    pub fn path_around_last(&self, variables: &[&str]) -> (String, &'static str) {
        let end = self.path.rfind('}').map_or(self.path.len(), |at| at + 1);
        let mut before = self.path_of(variables);
        let behind = &self.path[end..];
        before.truncate(before.len() - behind.len());
        (before, behind)
    }
}

/// Everything but the unreserved characters of RFC 3986, section 2.3, and the colon, which stands for
/// itself in a segment.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
