//! The state of a job, for jobs and for callers that wait for the end of one.

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// No server has started it.
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

    /// Whether no server will ever work on it again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Cancelled | Self::Done)
    }
}
