//! The stored form of a job: JSON, read through the domain's constructors, which refuse a damaged or edited record.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Job, JobState, Progress, Target, Task, TaskKind};
use crate::domain::{
    EntityId, EntityType, FeatureId, FeatureName, Generation, Invalid, JobId, Timestamp, VersionLabel,
};
use crate::metadata::keys::record::{Broken, author};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobRecord {
    format: u32,
    id: String,
    number: u64,
    state: String,
    kind: String,
    entity_type: String,
    feature: String,
    /// Versions and generations.
    targets: Vec<(String, u64)>,
    lists_per_second: Option<NonZeroU32>,
    targets_done: usize,
    place: Option<(u64, Option<String>)>,
    lists: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    left_out: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    added: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    removed: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<u64>,
    erased: Option<bool>,
    created_at_nanos: u64,
    created_by: String,
    on_behalf_of: Option<String>,
    updated_at_nanos: u64,
    holder: Option<String>,
    problem: Option<String>,
}

const FORMAT: u32 = 1;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub fn write(job: &Job) -> Result<String, serde_json::Error> {
    let Job { id, number, state, task, progress, created_at, created_by, updated_at, holder, problem } = job;
    let targets = task.targets.iter().map(|target| (target.version.to_string(), target.generation.as_u64()));
    serde_json::to_string(&JobRecord {
        format: FORMAT,
        id: id.to_string(),
        number: *number,
        state: state.as_str().to_owned(),
        kind: task.kind.as_str().to_owned(),
        entity_type: task.feature.entity_type.to_string(),
        feature: task.feature.name.to_string(),
        targets: targets.collect(),
        lists_per_second: task.lists_per_second,
        targets_done: progress.targets,
        place: progress.place.as_ref().map(|(hash, after)| (*hash, after.as_ref().map(|id| id.as_str().to_owned()))),
        lists: progress.lists,
        left_out: progress.left_out,
        added: progress.added,
        removed: progress.removed,
        entries: progress.entries.clone(),
        erased: progress.erased,
        created_at_nanos: created_at.as_nanos(),
        created_by: created_by.as_str().to_owned(),
        on_behalf_of: created_by.behalf().map(str::to_owned),
        updated_at_nanos: updated_at.as_nanos(),
        holder: holder.map(|holder| format!("{holder:032x}")),
        problem: problem.clone(),
    })
}

pub fn read(text: &[u8]) -> Result<Job, Broken> {
    let record: JobRecord = serde_json::from_slice(text).map_err(|_| Broken("record"))?;
    if record.format != FORMAT {
        return Err(Broken("format"));
    }
    let target = |(version, generation): &(String, u64)| {
        let version = valid("targets", VersionLabel::new(version))?;
        Ok(Target { version, generation: valid("targets", Generation::new(*generation))? })
    };
    let feature = FeatureId {
        entity_type: valid("entity_type", EntityType::new(&record.entity_type))?,
        name: valid("feature", FeatureName::stored(&record.feature))?,
    };
    let place = record
        .place
        .map(|(hash, after)| Ok((hash, after.map(|after| valid("place", EntityId::new(&after))).transpose()?)));
    let holder = record.holder.map(|holder| u128::from_str_radix(&holder, 16).map_err(|_| Broken("holder")));
    let kind = TaskKind::ALL.into_iter().find(|kind| kind.as_str() == record.kind);
    let state = JobState::ALL.into_iter().find(|state| state.as_str() == record.state);
    Ok(Job {
        id: valid("id", JobId::parse(&record.id))?,
        number: record.number,
        state: state.ok_or(Broken("state"))?,
        task: Task {
            kind: kind.ok_or(Broken("kind"))?,
            feature,
            targets: record.targets.iter().map(target).collect::<Result<_, _>>()?,
            lists_per_second: record.lists_per_second,
        },
        progress: Progress {
            targets: record.targets_done,
            place: place.transpose()?,
            lists: record.lists,
            left_out: record.left_out,
            added: record.added,
            removed: record.removed,
            entries: record.entries,
            erased: record.erased,
        },
        created_at: valid("created_at", Timestamp::from_nanos(record.created_at_nanos))?,
        created_by: author(record.created_by, record.on_behalf_of)?,
        updated_at: valid("updated_at", Timestamp::from_nanos(record.updated_at_nanos))?,
        holder: holder.transpose()?,
        problem: record.problem,
    })
}

fn valid<T>(part: &'static str, outcome: Result<T, Invalid>) -> Result<T, Broken> {
    outcome.map_err(|_| Broken(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"format":1,"id":"00000000000000000000000000000abc","number":7,"state":"running","kind":"purge","entity_type":"user","feature":"seen","targets":[["",2],["v",1]],"lists_per_second":50,"targets_done":1,"place":[9,"u-1"],"lists":12,"erased":null,"created_at_nanos":1,"created_by":"key:feed","on_behalf_of":"alice","updated_at_nanos":2,"holder":"0000000000000000000000000000000f","problem":"away"}"#;

    #[test]
    fn a_job_reads_back_and_other_records_are_refused() {
        let job = read(RECORD.as_bytes()).unwrap();
        assert_eq!(write(&job).unwrap(), RECORD);
        for (part, good, bad) in [
            ("format", "\"format\":1", "\"format\":2"),
            ("id", "0abc\"", "0abC\""),
            ("state", "running", "walking"),
            ("kind", "purge", "urge"),
            ("entity_type", "user", "us#er"),
            ("targets", "[\"\",2]", "[\"\",0]"),
            ("place", "u-1", ""),
            ("created_by", "key:feed", ""),
            ("holder", "000f\"", "000g\""),
            ("record", "\"lists\":12", "\"lists\":-1"),
        ] {
            let broken = RECORD.replacen(good, bad, 1);
            assert_ne!(broken, RECORD, "{good}");
            let found = read(broken.as_bytes()).err().map(|Broken(part)| part);
            assert_eq!(found, Some(if part == "created_by" { "by" } else { part }), "{bad}");
        }
    }
}
