//! What has to be done so that a server has the definitions of a file: `liststore feature import`.

use super::definition_file::{self, Declared, Definitions};
use super::definitions;
use crate::client::{Client, ClientError, Failure, Request};
use crate::domain::{FeatureId, Ttl, VersionLabel};
use crate::service::OperationId;
use crate::wire::{FeatureInput, FeaturePatch, VersionInput, VersionPatch};

/// What is to be done, one thing after the other, and what is only on the server.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What is left alone, in words.
    pub left: Vec<String>,
}

#[derive(Debug)]
pub struct Step {
    /// One line for people.
    pub told: String,
    request: Request,
}

/// The definitions of a server as a file.
pub async fn export(client: &Client) -> Result<String, Failure> {
    definition_file::write(&definitions::features(client, None, None).await?)
}

impl Plan {
    /// What a server lacks of a file. What is on the server alone is deleted only if it is to be `pruned`.
    pub async fn make(client: &Client, file: &str, pruned: bool) -> Result<Self, Failure> {
        let wanted = definition_file::read(file)?;
        let present = definition_file::of_server(&definitions::features(client, None, None).await?)?;
        Self::between(&wanted, &present, pruned)
    }

    fn between(wanted: &Definitions, present: &Definitions, pruned: bool) -> Result<Self, Failure> {
        let mut plan = Self::default();
        for (id, wanted) in wanted {
            match present.get(id) {
                None => plan.create(id, wanted)?,
                Some(present) => plan.change(id, wanted, present, pruned)?,
            }
        }
        for id in present.keys().filter(|id| !wanted.contains_key(id)) {
            plan.remove(id.to_string(), Request::of_feature(OperationId::DeleteFeature, id), pruned);
        }
        Ok(plan)
    }

    /// Does it all.
    pub async fn carry_out(&self, client: &Client) -> Result<(), Failure> {
        for Step { told, request } in &self.steps {
            client.send(request).await.map_err(|error| Failure::failed(format!("{told}: {error}")))?;
        }
        Ok(())
    }

    fn push(&mut self, told: String, request: Request) {
        self.steps.push(Step { told, request });
    }

    fn remove(&mut self, what: String, request: Request, pruned: bool) {
        if pruned {
            self.push(format!("- {what}"), request);
        } else {
            self.left.push(what);
        }
    }

    fn create(&mut self, id: &FeatureId, wanted: &Declared) -> Result<(), ClientError> {
        let Declared { value_type, ttl, description, owner, labels, versions } = wanted;
        let input = FeatureInput {
            entity_type: id.entity_type.clone(),
            name: id.name.clone(),
            value_type: *value_type,
            ttl: *ttl,
            description: Some(description.clone()),
            owner: Some(owner.clone()),
            labels: Some(labels.clone()),
        };
        let request = Request::new(OperationId::CreateFeature, &[]).body(&input)?;
        self.push(format!("+ {id}: {value_type}, ttl {ttl}"), request);
        versions.iter().try_for_each(|(label, version)| self.create_version(id, label, version))
    }

    fn create_version(
        &mut self,
        id: &FeatureId,
        label: &VersionLabel,
        (ttl, description): &(Ttl, crate::domain::Description),
    ) -> Result<(), ClientError> {
        let input = VersionInput { version: label.clone(), ttl: Some(*ttl), description: Some(description.clone()) };
        let request = Request::of_feature(OperationId::CreateVersion, id).body(&input)?;
        self.push(format!("+ {id}, version {label}: ttl {ttl}"), request);
        Ok(())
    }

    fn change(&mut self, id: &FeatureId, wanted: &Declared, present: &Declared, pruned: bool) -> Result<(), Failure> {
        if wanted.value_type != present.value_type {
            return Err(Failure::failed(format!(
                "{id} has the value type {}, which never changes, and not {}: nothing was done",
                present.value_type, wanted.value_type
            )));
        }
        let mut differences = Vec::new();
        let patch = FeaturePatch {
            ttl: differs("ttl", &wanted.ttl, &present.ttl, &mut differences),
            description: differs("description", &wanted.description, &present.description, &mut differences),
            owner: differs("owner", &wanted.owner, &present.owner, &mut differences),
            labels: (wanted.labels != present.labels).then(|| {
                differences.push(format!("labels {:?} -> {:?}", present.labels.as_map(), wanted.labels.as_map()));
                wanted.labels.clone()
            }),
        };
        if !differences.is_empty() {
            let request = Request::of_feature(OperationId::UpdateFeature, id).body(&patch)?;
            self.push(format!("~ {id}: {}", differences.join(", ")), request);
        }
        for (label, version) in &wanted.versions {
            let Some(known) = present.versions.get(label) else {
                self.create_version(id, label, version)?;
                continue;
            };
            let mut differences = Vec::new();
            let patch = VersionPatch {
                ttl: differs("ttl", &version.0, &known.0, &mut differences),
                description: differs("description", &version.1, &known.1, &mut differences),
            };
            if !differences.is_empty() {
                let request = Request::of_version(OperationId::UpdateVersion, id, label).body(&patch)?;
                self.push(format!("~ {id}, version {label}: {}", differences.join(", ")), request);
            }
        }
        for label in present.versions.keys().filter(|label| !wanted.versions.contains_key(label)) {
            let request = Request::of_version(OperationId::DeleteVersion, id, label);
            self.remove(format!("{id}, version {label}"), request, pruned);
        }
        Ok(())
    }
}

/// What is wanted, if it is not what is there; then it is told.
fn differs<T: PartialEq + Clone + ToString>(
    name: &str,
    wanted: &T,
    present: &T,
    differences: &mut Vec<String>,
) -> Option<T> {
    if wanted == present {
        return None;
    }
    let shown = |value: &T| {
        let text = value.to_string();
        if text.is_empty() { "\"\"".to_owned() } else { text }
    };
    differences.push(format!("{name} {} -> {}", shown(present), shown(wanted)));
    Some(wanted.clone())
}
