//! What operations take in their queries, in the order in which their functions get it.

use crate::wire::parameters::{
    AS_OF, AUDIT_ACTION, AUDIT_BY, AUDIT_TARGET, BAGS_LIMIT, COUNT_MAX, CREATED_KEYS, ENTITY_TYPE, JOINED_LISTS, LIMIT,
    MAX, MAX_TIMESTAMP, MIN, MIN_TIMESTAMP, ORDER, PAGE_SIZE, PAGE_TOKEN, Parameter, SINCE, TEXT, TYPE_TEXT, UNTIL,
    VALUE, VERSION,
};

pub const NONE: [Parameter; 0] = [];
pub const VERSION_ONLY: [Parameter; 1] = [VERSION];
pub const GET_ITEMS: [Parameter; 7] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, AS_OF, ORDER, LIMIT, PAGE_TOKEN];
pub const WITHIN: [Parameter; 3] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP];
pub const COUNT_ITEMS: [Parameter; 4] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, COUNT_MAX];
pub const LIST_FEATURES: [Parameter; 4] = [ENTITY_TYPE, TEXT, PAGE_SIZE, PAGE_TOKEN];
pub const LIST_ENTITY_TYPES: [Parameter; 3] = [TYPE_TEXT, PAGE_SIZE, PAGE_TOKEN];
pub const LIST_ENTITIES: [Parameter; 3] = [VERSION, PAGE_SIZE, PAGE_TOKEN];
pub const FIND_BAGS: [Parameter; 6] = [VALUE, MIN, MAX, ORDER, BAGS_LIMIT, PAGE_TOKEN];
pub const JOINED: [Parameter; 1] = [JOINED_LISTS];
pub const PAGE: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];
pub const REVOKE_KEY: [Parameter; 1] = [CREATED_KEYS];
pub const LIST_AUDIT: [Parameter; 7] = [AUDIT_BY, AUDIT_TARGET, AUDIT_ACTION, SINCE, UNTIL, PAGE_SIZE, PAGE_TOKEN];
