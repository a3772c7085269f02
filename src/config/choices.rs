//! Settings that are one of a few words.

use std::fmt;

use serde::{Serialize, Serializer};

/// A setting with a fixed set of words. Words are read without regard to case.
pub(super) trait Choice: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

choice! {
    /// The store of items.
    ItemStoreKind {
        Embedded = "embedded",
        Cql = "cql",
        /// For tests: nothing survives the process.
        Memory = "memory",
    }
}

choice! {
    /// The store of feature definitions.
    MetadataStoreKind {
        Embedded = "embedded",
        Postgres = "postgres",
        /// For tests: nothing survives the process.
        Memory = "memory",
    }
}

choice! {
    /// When callers must show an API key.
    AccessMode {
        /// Once a key was ever made; always beyond loopback.
        Auto = "auto",
        Open = "open",
        Required = "required",
    }
}

choice! {
    /// The access to the metrics.
    MetricsAccess {
        Key = "key",
        Open = "open",
    }
}

choice! {
    /// When the embedded store acknowledges a write.
    Fsync {
        /// Once it is on disk: one fsync for all writes that wait.
        Group = "group",
        /// Once the operating system has it: it survives a crash of the process, but up to one
        /// interval is lost if the machine loses power.
        Interval = "interval",
    }
}

choice! {
    /// Which database the nodes run.
    Dialect {
        Auto = "auto",
        Scylla = "scylla",
        Cassandra = "cassandra",
    }
}

choice! {
    /// Whether a new keyspace uses ScyllaDB's tablets; Cassandra has none.
    Tablets {
        Auto = "auto",
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

choice! {
    /// CQL consistency levels that both reads and writes may use.
    Consistency {
        One = "ONE",
        Two = "TWO",
        Three = "THREE",
        Quorum = "QUORUM",
        All = "ALL",
        LocalQuorum = "LOCAL_QUORUM",
        EachQuorum = "EACH_QUORUM",
        LocalOne = "LOCAL_ONE",
    }
}

choice! {
    /// How frames to and from CQL nodes are compressed.
    Compression {
        None = "none",
        Lz4 = "lz4",
        Snappy = "snappy",
    }
}

choice! {
    LogFormat {
        /// Text on a terminal, otherwise JSON.
        Auto = "auto",
        Text = "text",
        Json = "json",
    }
}

choice! {
    /// Whether clients show certificates.
    ClientAuth {
        None = "none",
        /// Clients may present one. A presented one must be valid.
        Optional = "optional",
        Required = "required",
    }
}
