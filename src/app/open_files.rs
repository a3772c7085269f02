//! The limit of open files, which counts connections and the files of stores.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::OTHER_FILES;

/// Raises the limit to this process's hard limit. The usual 1,024 suits programs that use select(2). Logs a warning if
/// the limit stays below the possible need of the settings.
pub(super) fn raise_limit(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    // `None` means unlimited.
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let needed = connections_max.saturating_add(OTHER_FILES) as u64;
    if limit < needed {
        tracing::warn!(limit, needed, "the limit of open files is too low for http.connections_max: raise `ulimit -n`");
    }
}
