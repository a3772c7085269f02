//! The properties of an operation, declared once: the form of the rows in [`crate::operations`].

use std::fmt;

use crate::permission::{Permission, Resource};
use crate::wire::parameters::{Parameter, REQUEST_ID, TIMEOUT};
use crate::wire::{ErrorCode, Type};

/// The data of an operation for all code except its own function.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its id in the OpenAPI document, and its label in metrics and logs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Details beyond the summary; may be empty.
    pub description: &'static str,
    pub group: Group,
    pub permission: Permission,
    /// Where the resources are named that its caller needs the permission for.
    pub subject: Subject,
    pub effect: Effect,
    pub method: Method,
    /// The path, with its variable segments in braces.
    pub path: &'static str,
    pub query: &'static [Parameter],
    pub headers: &'static [Parameter],
    pub request: Option<Type>,
    /// Whether its body is a merge patch (RFC 7396), which may have its own media type.
    pub takes_merge_patch: bool,
    /// Whether it reads or changes items, so that a caller's limit of items bounds it.
    pub counts_items: bool,
    /// The replies of success, and the other replies that are not a problem. The first is the usual one.
    pub replies: &'static [ReplyForm],
    /// Every code that it may be refused or fail with, in sets that operations share.
    pub errors: &'static [&'static [ErrorCode]],
}

/// Where an operation names the resources that it is about. The permission is decided on before the body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The path: an entity type, then a feature.
    Feature,
    /// The path: an entity type.
    EntityType,
    /// Nowhere: a listing shows the features that its caller may see, and the feature of a job is known once the job is
    /// found.
    Visible,
    /// The body: the operation decides on each resource that it names. Before, it is enough to have the permission for
    /// some resource.
    Body,
    /// Nowhere: it is about the server as a whole.
    Server,
}

/// The groups of operations.
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

/// The effect of an operation on the stored data.
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

/// A reply that is not a problem.
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
    /// JSON, or lines of JSON (NDJSON) for callers that request them.
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
    /// Whether it may change stored data.
    #[inline]
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

impl Row {
    /// The values of most rows.
    pub const DEFAULT: Self = Self {
        name: "",
        summary: "",
        description: "",
        group: Group::Operations,
        permission: Permission::LocalAdministration,
        subject: Subject::Server,
        effect: Effect::Write,
        method: Method::Post,
        path: "/",
        query: &[],
        headers: &[REQUEST_ID, TIMEOUT],
        request: None,
        takes_merge_patch: false,
        counts_items: false,
        replies: &[],
        errors: &[],
    };

    /// Whether it is this one.
    #[inline]
    pub fn is(&'static self, other: &'static Self) -> bool {
        std::ptr::eq(self, other)
    }

    pub fn errors(&self) -> impl Iterator<Item = ErrorCode> {
        self.errors.iter().flat_map(|set| set.iter().copied())
    }

    #[inline]
    pub fn takes_header(&self, header: &Parameter) -> bool {
        self.headers.iter().any(|taken| taken.name == header.name)
    }

    /// Its resource, according to the variable segments of its path.
    #[inline]
    pub fn resource<'r>(&self, variables: [&'r str; 2]) -> Resource<'r> {
        match self.subject {
            Subject::Feature => Resource::Feature { entity_type: variables[0], feature: variables[1] },
            Subject::EntityType => Resource::EntityType(variables[0]),
            Subject::Visible | Subject::Body => Resource::SomeFeatures,
            Subject::Server => Resource::Whole,
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

    /// The text before and after the last variable segment of the path, for writing many paths that differ only in it.
    pub fn path_around_last(&self, variables: &[&str]) -> (String, &'static str) {
        let end = self.path.rfind('}').map_or(self.path.len(), |at| at + 1);
        let mut before = self.path_of(variables);
        let behind = &self.path[end..];
        before.truncate(before.len() - behind.len());
        (before, behind)
    }
}

/// Everything but the unreserved characters of RFC 3986, section 2.3, and the colon, which needs no encoding in a
/// segment.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
