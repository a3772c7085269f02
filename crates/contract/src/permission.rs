//! What a caller may be allowed to do and to what, and which roles allow it.

use crate::domain::Role;

/// What an operation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Anybody may.
    Open,
    /// Whoever is known to be somebody, or anybody where the server is open.
    Known,
    ListsRead,
    ListsWrite,
    FeaturesRead,
    FeaturesWrite,
    PoolsWrite,
    KeysWrite,
    ServerRead,
    ServerWrite,
    /// Not to be granted: for whoever is on the server's own machine.
    LocalAdministration,
}

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'r> {
    /// A feature, its versions, its history or its lists.
    Feature { entity_type: &'r str, feature: &'r str },
    /// All features of an entity type, those to come and those that were deleted too.
    EntityType(&'r str),
    /// Features that are decided on one by one later: those that a listing shows, or those that a body names.
    SomeFeatures,
    /// The server, or all of them: no feature in particular.
    Whole,
}

impl Permission {
    /// Those that roles give.
    pub const GRANTED: [Self; 8] = [
        Self::ListsRead,
        Self::ListsWrite,
        Self::FeaturesRead,
        Self::FeaturesWrite,
        Self::PoolsWrite,
        Self::KeysWrite,
        Self::ServerRead,
        Self::ServerWrite,
    ];

    /// Whether it is about the whole server, and nothing for those who are limited to some features.
    pub fn is_about_all(self) -> bool {
        matches!(self, Self::PoolsWrite | Self::KeysWrite | Self::ServerRead | Self::ServerWrite)
    }

    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Known => "known",
            Self::ListsRead => "lists:read",
            Self::ListsWrite => "lists:write",
            Self::FeaturesRead => "features:read",
            Self::FeaturesWrite => "features:write",
            Self::PoolsWrite => "pools:write",
            Self::KeysWrite => "keys:write",
            Self::ServerRead => "server:read",
            Self::ServerWrite => "server:write",
            Self::LocalAdministration => "local",
        }
    }

    /// Whether a role allows it. What is not named here is not allowed.
    pub fn is_of(self, role: Role) -> bool {
        match role {
            Role::Reader => matches!(self, Self::ListsRead | Self::FeaturesRead),
            Role::Writer => matches!(self, Self::ListsRead | Self::ListsWrite | Self::FeaturesRead),
            Role::Editor => matches!(self, Self::FeaturesRead | Self::FeaturesWrite),
            Role::Operator => {
                matches!(self, Self::FeaturesRead | Self::PoolsWrite | Self::ServerRead | Self::ServerWrite)
            }
            Role::Admin => matches!(
                self,
                Self::ListsRead
                    | Self::ListsWrite
                    | Self::FeaturesRead
                    | Self::FeaturesWrite
                    | Self::PoolsWrite
                    | Self::KeysWrite
                    | Self::ServerRead
                    | Self::ServerWrite
            ),
        }
    }
}
