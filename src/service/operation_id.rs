//! The names of operations, in the order of the table.

/// Which operation: the row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationId {
    GetItems,
    AddItems,
    RemoveAllItems,
    RemoveItems,
    CountItems,
    ContainsItems,
    LookupItems,
    ListEntities,
    BatchGet,
    BatchAdd,
    EraseEntity,
    PurgeFeature,
    ListJobs,
    GetJob,
    PauseJob,
    ResumeJob,
    CancelJob,
    ListFeatures,
    CreateFeature,
    GetFeature,
    UpdateFeature,
    DeleteFeature,
    GetHistory,
    CreateVersion,
    GetVersion,
    UpdateVersion,
    DeleteVersion,
    GetMe,
    GetSignIn,
    CreateKey,
    ListKeys,
    GetKey,
    RotateKey,
    RevokeKey,
    ListAudit,
    GetPool,
    ResizePool,
    GetLog,
    ChangeLog,
    CreateBackup,
    Livez,
    Readyz,
    Metrics,
    OpenApi,
}

impl OperationId {
    pub const COUNT: usize = Self::OpenApi as usize + 1;
}
