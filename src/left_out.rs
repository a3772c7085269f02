//! Parts that a program can be built without. They have heavy dependencies, and each is a feature of `Cargo.toml`.
//!
//! Settings and arguments are the same in every build. A request for a missing part is refused before any work, with a
//! line that states how to build a program with it.

use std::sync::LazyLock;

/// A part that a build can leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalPart {
    feature: &'static str,
    name: &'static str,
    is_built: bool,
}

pub const CQL: OptionalPart =
    OptionalPart { feature: "cql", name: "the store for ScyllaDB and Cassandra", is_built: cfg!(feature = "cql") };
pub const POSTGRES: OptionalPart =
    OptionalPart { feature: "postgres", name: "the store for Postgres", is_built: cfg!(feature = "postgres") };
pub const PARQUET: OptionalPart =
    OptionalPart { feature: "parquet", name: "Parquet files", is_built: cfg!(feature = "parquet") };

const ALL: [OptionalPart; 3] = [CQL, POSTGRES, PARQUET];

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this liststore was built without {}: build it with \"cargo build --release\" or \"--features {}\"",
    .0.name,
    .0.feature
)]
pub struct LeftOut(OptionalPart);

impl OptionalPart {
    /// Call this before any work that needs the part.
    pub fn needed(self) -> Result<(), LeftOut> {
        if self.is_built { Ok(()) } else { Err(LeftOut(self)) }
    }

    /// The refusal that replaces this part.
    pub fn refusal(self) -> LeftOut {
        LeftOut(self)
    }
}

/// The release, the commit and the parts that are built in, for `--version`.
pub fn long_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| long_version_with(&ALL));
    &VERSION
}

fn long_version_with(parts: &[OptionalPart]) -> String {
    let built: Vec<_> = parts.iter().filter(|part| part.is_built).map(|part| part.feature).collect();
    let built = if built.is_empty() { "none".to_owned() } else { built.join(", ") };
    format!("{}\ncommit: {}\nfeatures: {built}", env!("CARGO_PKG_VERSION"), env!("LISTSTORE_COMMIT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_omitted_part_is_refused_by_name_and_missing_in_the_version() {
        let [built, left_out] = [true, false].map(|is_built| OptionalPart { is_built, ..CQL });
        assert_eq!(built.needed(), Ok(()));
        assert_eq!(
            left_out.needed().unwrap_err().to_string(),
            "this liststore was built without the store for ScyllaDB and Cassandra: build it with \
             \"cargo build --release\" or \"--features cql\""
        );
        let features = |parts: &[OptionalPart]| long_version_with(parts).lines().last().map(str::to_owned);
        assert_eq!(features(&[built, built]).as_deref(), Some("features: cql, cql"));
        assert_eq!(features(&[left_out, built, left_out]).as_deref(), Some("features: cql"));
        assert_eq!(features(&[left_out]).as_deref(), Some("features: none"));
    }
}
