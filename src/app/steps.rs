//! The extent of a store's migration, and the report of its steps.

/// How much a migration does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Report the steps without running them.
    Reported,
    Done,
    /// Also rebuild the directories of lists in buckets.
    WithDirectories,
}

impl Migration {
    pub fn is_dry_run(self) -> bool {
        self == Self::Reported
    }

    /// Returns a line for each step that the migration ran or would run.
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
