//! The data plane: many lists in one call.

use super::parts::{ANY, BODY, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method};
use crate::wire::{BatchAddInput, BatchAddResults, BatchGetInput, BatchGetResults, Type};

pub const ROWS: [Descriptor; 2] = [
    Descriptor {
        id: OperationId::BatchGet,
        name: "batch_get",
        summary: "Get List Items of many lists",
        description: "Returns a page or a problem for each request, in order. Identical requests are read once. All \
                      requests share one deadline and the size limit of one response. A list that no longer fits has \
                      the problem `response_too_large`: request it again. An invalid name, ID or timestamp is a \
                      problem of its request only.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists:batchGet",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<BatchGetInput<'static>>()),
        replies: &[json(200, "One result for each request.", Type::of::<BatchGetResults>())],
        errors: &[ANY, WRITE, BODY],
    },
    Descriptor {
        id: OperationId::BatchAdd,
        name: "batch_add",
        summary: "Add List Items to many lists",
        description: "Each request is atomic on its own. Requests for the same list are applied in order. Returns one \
                      result for each request, in order, with status 200 even if some failed. An invalid name, ID, key \
                      or timestamp is a problem of its request only.",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Post,
        path: "/v1/lists:batchAdd",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<BatchAddInput<'static>>()),
        replies: &[json(200, "One result for each request.", Type::of::<BatchAddResults>())],
        errors: &[ANY, WRITE, BODY],
    },
];
