//! How far a job is: for jobs, and for those who are told that one is over.

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Nobody has begun with it.
    Waiting,
    Running,
    Paused,
    Cancelled,
    Done,
}

impl JobState {
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Running, Self::Paused, Self::Cancelled, Self::Done];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
        }
    }

    /// Whether nothing will ever be done for it again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Cancelled | Self::Done)
    }
}
