//! Changes that are made together. Each is decided on the result of the previous ones, and the journal stores all of
//! them at once. No reader sees any of them before.

use super::{Inner, Journal, State};
use crate::definition::Feature;
use crate::domain::{FeatureId, Generation, JobId, Revision, VersionLabel};
use crate::metadata::change::{self, Transition};
use crate::metadata::jobs::Job;
use crate::metadata::{Applied, Change, ChangeContext, MetadataError};

/// A change that was accepted.
struct Decided {
    change: Change,
    before: Option<Feature>,
    /// Whether it has anything to store.
    is_made: bool,
}

/// Changes to store together.
struct Batch<'s> {
    state: &'s State,
    transitions: Vec<Transition>,
}

impl Batch<'_> {
    fn present(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        match self.transitions.iter().rev().find(|transition| transition.id == *id) {
            Some(transition) => Ok(transition.after.clone()),
            None => self.state.features.get(id),
        }
    }

    fn last_generation(&self, id: &FeatureId, label: &VersionLabel) -> Result<Option<Generation>, MetadataError> {
        let mut begun = self.transitions.iter().rev().filter(|transition| transition.id == *id);
        match begun.find_map(|transition| transition.began.as_ref().filter(|(began, _)| began == label)) {
            Some((_, generation)) => Ok(Some(*generation)),
            None => self.state.last_generation(id, label),
        }
    }

    fn next_revision(&self) -> Revision {
        self.transitions.last().map_or(self.state.next_revision(), |last| Revision(last.entry.revision.0 + 1))
    }

    /// The number of the last state of a job, 0 if there is none.
    fn job_number(&self, id: JobId, journal: &impl Journal) -> Result<u64, MetadataError> {
        let mut jobs = self.transitions.iter().rev().filter_map(|transition| transition.job.as_ref());
        match jobs.find(|job| job.id == id) {
            Some(job) => Ok(job.number),
            None => job_number(journal, id),
        }
    }

    fn decide(
        &mut self,
        change: Change,
        context: ChangeContext,
        journal: &impl Journal,
    ) -> Result<Decided, MetadataError> {
        let before = self.present(change.feature())?;
        let last = match change.created() {
            Some(label) => self.last_generation(change.feature(), &label)?,
            None => None,
        };
        let transition = change::decide(change.clone(), before.as_ref(), last, self.next_revision(), context)?;
        if let Some(Transition { job: Some(job), .. }) = &transition
            && job.number != self.job_number(job.id, journal)? + 1
        {
            return Err(MetadataError::EtagMismatch);
        }
        let is_made = transition.is_some();
        self.transitions.extend(transition);
        Ok(Decided { change, before, is_made })
    }
}

/// The number of the stored state of a job, 0 if there is none.
fn job_number(journal: &impl Journal, id: JobId) -> Result<u64, MetadataError> {
    Ok(journal.jobs()?.iter().find(|kept| kept.id == id).map_or(0, |kept| kept.number))
}

impl<J: Journal> Inner<J> {
    /// Makes changes in their order, and returns the outcome of each.
    pub(super) fn apply(&mut self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        let mut batch = Batch { state: &self.state, transitions: Vec::new() };
        let mut decided: Vec<(bool, Result<Decided, MetadataError>)> = Vec::with_capacity(changes.len());
        for (change, context) in changes {
            let follows = !batch.transitions.is_empty();
            decided.push((follows, batch.decide(change, context, &self.journal)));
        }
        let transitions = batch.transitions;
        if !transitions.is_empty()
            && let Err(error) = self.journal.append(&transitions)
        {
            // A decision based on uncertain changes is as uncertain as they are.
            let failed = |(follows, decided): (bool, Result<Decided, MetadataError>)| match decided {
                Ok(Decided { is_made: false, change, before }) if !follows => Ok(Applied::new(&change, before, None)),
                Err(refusal) if !follows => Err(refusal),
                _ => Err(error.clone()),
            };
            return decided.into_iter().map(failed).collect();
        }
        let mut made = transitions.into_iter();
        let mut applied = |Decided { change, before, is_made }: Decided| {
            let transition = if is_made { made.next() } else { None };
            if let Some(transition) = &transition {
                self.state.apply(before.as_ref(), transition);
                self.recent.push(transition.entry.revision, transition.id.clone());
            }
            Applied::new(&change, before, transition)
        };
        decided.into_iter().map(|(_, decided)| decided.map(&mut applied)).collect()
    }

    /// Whether a state of a job follows the stored state.
    pub(super) fn follows(&self, job: &Job) -> Result<bool, MetadataError> {
        Ok(job.number == job_number(&self.journal, job.id)? + 1)
    }
}
