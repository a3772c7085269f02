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
        description: "Answers with a page or a problem for each request, in their order; equal requests are done once. \
                      All have one deadline, and all pages together the bytes of one answer: a list for which there is \
                      no room left has the problem `response_too_large`, and is to be asked for again. A name, an ID \
                      or a moment that cannot exist is a problem of its request alone.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists:batchGet",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<BatchGetInput<'static>>()),
        replies: &[json(200, "What came of each request.", Type::of::<BatchGetResults>())],
        errors: &[ANY, WRITE, BODY],
    },
    Descriptor {
        id: OperationId::BatchAdd,
        name: "batch_add",
        summary: "Add List Items to many lists",
        description: "Each request is done whole or not at all, by itself; those for one list in their order. Answers \
                      with what came of each, in their order, and with 200 also where some failed. A name, an ID, a \
                      key or a moment that cannot exist is a problem of its request alone.",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Post,
        path: "/v1/lists:batchAdd",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<BatchAddInput<'static>>()),
        replies: &[json(200, "What came of each request.", Type::of::<BatchAddResults>())],
        errors: &[ANY, WRITE, BODY],
    },
];
