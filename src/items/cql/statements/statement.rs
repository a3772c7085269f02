//! The labels of statements.

/// The kind of a request's statement, for metrics and for the meaning of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    Get,
    /// The keys of a slice alone: to count its items, or to find the last one that a list shows or keeps. Rows of sets
    /// have members, too, and are read by `Get`.
    Keys,
    Find,
    /// A look into the directory of a list that is kept in buckets, and a change of it.
    Buckets,
    NoteBuckets,
    Entities,
    Add,
    Swap,
    Delete,
    Clear,
    /// Reads and deletions of a sweep. No caller waits for them, and their latencies do not reflect the load of
    /// operations.
    Sweep,
}

impl Statement {
    pub const ALL: [Self; 11] = [
        Self::Get,
        Self::Keys,
        Self::Find,
        Self::Buckets,
        Self::NoteBuckets,
        Self::Entities,
        Self::Add,
        Self::Swap,
        Self::Delete,
        Self::Clear,
        Self::Sweep,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Keys => "keys",
            Self::Find => "find",
            Self::Buckets => "buckets",
            Self::NoteBuckets => "note_buckets",
            Self::Entities => "entities",
            Self::Add => "add",
            Self::Swap => "swap",
            Self::Delete => "delete",
            Self::Clear => "clear",
            Self::Sweep => "sweep",
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Self::NoteBuckets | Self::Add | Self::Swap | Self::Delete | Self::Clear)
    }

    /// Whether a caller waits for it. Else it has one attempt, and counts for neither the load nor the health of nodes.
    pub fn is_live(self) -> bool {
        self != Self::Sweep
    }
}
