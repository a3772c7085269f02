//! How far a migration of a store goes, and what is told of its steps.

/// How far a migration goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Only told.
    Told,
    Done,
    /// The directories of lists in buckets are made anew besides.
    WithDirectories,
}

impl Migration {
    pub fn is_dry_run(self) -> bool {
        self == Self::Told
    }

    /// A line for each step that was taken, or would be.
    pub fn lines(self, plane: &str, schema: &str, steps: Vec<String>) -> Vec<String> {
        if steps.is_empty() {
            return vec![format!("{plane}: the {schema} is up to date")];
        }
        let done = if self.is_dry_run() { "would apply" } else { "applied" };
        steps.into_iter().map(|step| format!("{plane}: {done} {step} ({schema})")).collect()
    }
}

/// The line of a store that has no schema.
pub(super) fn needs_none(plane: &str, kind: &str) -> String {
    format!("{plane}: the {kind} store needs no migration")
}
