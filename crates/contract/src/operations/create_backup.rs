//! Make a backup of the embedded stores.

use super::parts::{BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{Backup, BackupInput, ErrorCode, Type};

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
