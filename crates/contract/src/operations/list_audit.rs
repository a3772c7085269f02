//! Read the audit trail.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{AUDIT_ACTION, AUDIT_BY, AUDIT_TARGET, PAGE_SIZE, PAGE_TOKEN, Parameter, SINCE, UNTIL};
use crate::wire::{AuditPage, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 7] = [AUDIT_BY, AUDIT_TARGET, AUDIT_ACTION, SINCE, UNTIL, PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_audit",
    summary: "Read the audit trail",
    description: "Changes of definitions, API keys and servers (pool, log, jobs, backups), newest first. The \
                  action `refuse` lists this server's recent refusals instead. Equal refusals within a minute are \
                  one entry, with their number in `after.count`.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/audit",
    query: &QUERY,
    replies: &[json(200, "A page of changes.", Type::of::<AuditPage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    ..Row::DEFAULT
};
