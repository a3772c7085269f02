//! Permissions: the actions that a caller can be allowed and their resources, and the roles that allow them.

use crate::domain::Role;

/// The permission that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Any caller.
    Open,
    /// Any known caller, or any caller if the server is open.
    Known,
    ListsRead,
    ListsWrite,
    FeaturesRead,
    FeaturesWrite,
    PoolsWrite,
    KeysWrite,
    ServerRead,
    ServerWrite,
    /// Cannot be granted: for callers on the server's machine.
    LocalAdministration,
}

/// The resource of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'r> {
    /// A feature, its versions, its history or its lists.
    Feature { entity_type: &'r str, feature: &'r str },
    /// All features of an entity type, including future and deleted ones.
    EntityType(&'r str),
    /// Features that are checked one by one later: the features of a listing, or of a body.
    SomeFeatures,
    /// The server, or all of them: no feature in particular.
    Whole,
}

impl Permission {
    /// The permissions that roles give.
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

    /// Whether it concerns the whole server, so that callers with access to only some features cannot use it.
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

    /// Whether a role allows it. All other permissions are refused.
    pub fn is_of(self, role: Role) -> bool {
        match role {
            Role::Reader => matches!(self, Self::ListsRead | Self::FeaturesRead),
            Role::Writer => matches!(self, Self::ListsRead | Self::ListsWrite | Self::FeaturesRead),
            Role::Editor => matches!(self, Self::FeaturesRead | Self::FeaturesWrite),
            Role::Scaler => matches!(self, Self::PoolsWrite),
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
