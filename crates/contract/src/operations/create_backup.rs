//! Make a backup of the embedded stores.

use std::path::PathBuf;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{BODY, CREATION, WRITE, json};
use crate::domain::Invalid;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::members::parsed;
use crate::wire::{ErrorCode, Problem, Type, body};

pub static ROW: Row = Row {
    name: "create_backup",
    summary: "Make a backup of the embedded stores",
    description: "Available only over the socket in the server's data directory (`admin.sock`) because the backup \
                  is written on the server's machine. The backup contains everything acknowledged before the call. \
                  The response is sent when the backup is complete. An incomplete backup never has the final \
                  directory name. One backup runs at a time, and it continues if the caller disconnects.",
    group: Group::Operations,
    permission: Permission::LocalAdministration,
    subject: Subject::Server,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/backups",
    headers: CREATION,
    request: Some(Type::of::<BackupInput>()),
    replies: &[json(201, "The backup is complete.", Type::of::<Backup>())],
    errors: &[
        WRITE,
        BODY,
        &[
            ErrorCode::InvalidArgument,
            ErrorCode::Unauthenticated,
            ErrorCode::LocalOnly,
            ErrorCode::MetadataUnavailable,
            ErrorCode::IssuerUnavailable,
            ErrorCode::UnknownHost,
            ErrorCode::RateLimited,
            ErrorCode::BackupDirNotEmpty,
            ErrorCode::BackupRunning,
            ErrorCode::BackupFailed,
            ErrorCode::BackupUnsupported,
            ErrorCode::Overloaded,
            ErrorCode::Draining,
            ErrorCode::DeadlineExceeded,
        ],
    ],
    ..Row::DEFAULT
};

/// The destination of a backup.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"dir": "/var/backups/liststore/2024-08-29"}))]
#[serde(deny_unknown_fields)]
pub struct BackupInput {
    /// An absolute path on the server's machine: an empty directory, or a new one in an existing directory.
    #[serde(deserialize_with = "absolute")]
    #[schema(value_type = String, pattern = "^/")]
    pub dir: PathBuf,
}

impl BackupInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    parsed(deserializer, |text| {
        let dir = PathBuf::from(text);
        if !dir.is_absolute() || text.contains('\0') {
            return Err(Invalid::argument("dir must be an absolute path on the server's machine"));
        }
        Ok(dir)
    })
}

/// A backup that was made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    pub dir: String,
    pub data_files: u64,
    pub data_bytes: u64,
    /// The data files that were copied because hard links to them were impossible.
    pub copied_files: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
    /// Whether the backup includes the definitions. If they are in Postgres, dump that database after this backup.
    pub definitions: bool,
    pub seconds: f64,
}
