//! The operations: one file each, with its row. The server has a file of the same name that carries the operation out,
//! and one table of all of them. A client needs the row alone: `Request::new(&get_job::ROW, &[id])`.

mod parts;

pub mod add_items;
pub mod aggregate_items;
pub mod batch_add;
pub mod batch_get;
pub mod batch_get_bags;
pub mod cancel_job;
pub mod change_log;
pub mod clean_indexes;
pub mod contains_items;
pub mod count_items;
pub mod create_backup;
pub mod create_bag;
pub mod create_entity_type;
pub mod create_feature;
pub mod create_index;
pub mod create_key;
pub mod create_version;
pub mod delete_bag;
pub mod delete_entity_type;
pub mod delete_feature;
pub mod delete_index;
pub mod delete_version;
pub mod erase_entity;
pub mod find_bags;
pub mod find_bags_by_body;
pub mod get_bag;
pub mod get_entity_type;
pub mod get_entity_type_history;
pub mod get_feature;
pub mod get_history;
pub mod get_index;
pub mod get_items;
pub mod get_job;
pub mod get_key;
pub mod get_log;
pub mod get_me;
pub mod get_pool;
pub mod get_sign_in;
pub mod get_version;
pub mod list_audit;
pub mod list_bags;
pub mod list_entities;
pub mod list_entity_types;
pub mod list_features;
pub mod list_indexes;
pub mod list_jobs;
pub mod list_keys;
pub mod list_lists;
pub mod livez;
pub mod lookup_items;
pub mod metrics;
pub mod openapi;
pub mod patch_bag;
pub mod pause_job;
pub mod purge_entity_type;
pub mod purge_feature;
pub mod put_bag;
pub mod readyz;
pub mod remove_all_items;
pub mod remove_items;
pub mod resize_pool;
pub mod resume_job;
pub mod revoke_key;
pub mod rotate_key;
pub mod update_entity_type;
pub mod update_feature;
pub mod update_job;
pub mod update_version;

macro_rules! names {
    ($($file:ident: $operation:ident,)+) => {
        /// The names of all operations, in the order of the table. Each is also the name of the operation's file.
        pub const NAMES: &[&str] = &[$(stringify!($file)),+];
    };
}

/// Calls the macro `table` with each operation in the order of the table: its file, and the type that carries it out in
/// a file of the same name in the server.
#[macro_export]
macro_rules! each_operation {
    ($table:ident) => {
        $table! {
            get_items: GetItems,
            add_items: AddItems,
            batch_get: BatchGet,
            batch_add: BatchAdd,
            remove_items: RemoveItems,
            lookup_items: LookupItems,
            contains_items: ContainsItems,
            count_items: CountItems,
            aggregate_items: AggregateItems,
            remove_all_items: RemoveAllItems,
            list_lists: ListLists,
            list_entities: ListEntities,
            erase_entity: EraseEntity,
            purge_feature: PurgeFeature,
            list_jobs: ListJobs,
            get_job: GetJob,
            update_job: UpdateJob,
            pause_job: PauseJob,
            resume_job: ResumeJob,
            cancel_job: CancelJob,
            list_features: ListFeatures,
            create_feature: CreateFeature,
            get_feature: GetFeature,
            update_feature: UpdateFeature,
            delete_feature: DeleteFeature,
            get_history: GetHistory,
            create_version: CreateVersion,
            get_version: GetVersion,
            update_version: UpdateVersion,
            delete_version: DeleteVersion,
            list_entity_types: ListEntityTypes,
            create_entity_type: CreateEntityType,
            get_entity_type: GetEntityType,
            update_entity_type: UpdateEntityType,
            delete_entity_type: DeleteEntityType,
            get_entity_type_history: GetEntityTypeHistory,
            purge_entity_type: PurgeEntityType,
            create_index: CreateIndex,
            list_indexes: ListIndexes,
            get_index: GetIndex,
            delete_index: DeleteIndex,
            clean_indexes: CleanIndexes,
            find_bags: FindBags,
            find_bags_by_body: FindBagsByBody,
            get_bag: GetBag,
            put_bag: PutBag,
            patch_bag: PatchBag,
            delete_bag: DeleteBag,
            create_bag: CreateBag,
            list_bags: ListBags,
            batch_get_bags: BatchGetBags,
            get_me: GetMe,
            get_sign_in: GetSignIn,
            create_key: CreateKey,
            list_keys: ListKeys,
            get_key: GetKey,
            rotate_key: RotateKey,
            revoke_key: RevokeKey,
            list_audit: ListAudit,
            get_pool: GetPool,
            resize_pool: ResizePool,
            get_log: GetLog,
            change_log: ChangeLog,
            create_backup: CreateBackup,
            livez: Livez,
            readyz: Readyz,
            metrics: Metrics,
            openapi: OpenApi,
        }
    };
}

each_operation!(names);
