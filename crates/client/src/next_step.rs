//! Next steps after an error: names that are close to a missing one, and commands that help.

use liststore_contract::domain::Limit;
use liststore_contract::operations::{get_feature, list_entity_types, list_features, list_indexes};
use liststore_contract::wire::parameters::PAGE_SIZE;
use liststore_contract::wire::{ErrorCode, Feature};
use serde::Deserialize;

use super::error::ClientError;
use super::request::Request;
use super::{Client, OptionNames, RawPage, read};

/// The kinds of existing objects, and the command that lists them.
const EXISTING: [(ErrorCode, &str); 5] = [
    (ErrorCode::FeatureExists, "feature get"),
    (ErrorCode::VersionExists, "version get"),
    (ErrorCode::EntityTypeExists, "entity-type get"),
    (ErrorCode::IndexExists, "index get"),
    (ErrorCode::KeyExists, "key list"),
];

impl Client {
    /// Adds a next step to the error, if there is one. It may request the existing names from the server.
    pub(super) async fn with_next_step(
        &self,
        request: &Request,
        error: ClientError,
        options: OptionNames,
    ) -> ClientError {
        let ClientError::Problem(mut problem) = error else { return error };
        let step = match options.knows_names {
            true => self.next_step(request, &problem.details.code).await,
            false => None,
        };
        problem.next_step = step.or_else(|| of_caller(problem.details.status, options.key));
        problem.role = options.role;
        ClientError::Problem(problem)
    }

    async fn next_step(&self, request: &Request, code: &str) -> Option<String> {
        let is = |other: ErrorCode| other.name() == code;
        if let Some((_, command)) = EXISTING.iter().find(|(existing, _)| is(*existing)) {
            return Some(format!("`liststore {command}` shows it"));
        }
        let [entity_type, rest @ ..] = &*request.variables else { return None };
        let name = rest.first().map(String::as_str).unwrap_or_default();
        if is(ErrorCode::FeatureNotFound) {
            return Some(self.near_feature(entity_type, name).await);
        }
        if is(ErrorCode::VersionNotFound) {
            return self.versions(entity_type, name).await;
        }
        if is(ErrorCode::EntityTypeNotFound) {
            let types = self.names(Request::new(&list_entity_types::ROW, &[])).await?;
            let create = format!("`liststore entity-type create {entity_type}` creates it");
            return Some(did_you_mean(entity_type, &types, "`liststore entity-type list` shows all").unwrap_or(create));
        }
        if is(ErrorCode::IndexNotFound) {
            let indexes = self.names(Request::new(&list_indexes::ROW, &[entity_type])).await?;
            let create = format!("`liststore index create {entity_type} {name} --property /…` creates it");
            return Some(did_you_mean(name, &indexes, "`liststore index list` shows all").unwrap_or(create));
        }
        None
    }

    async fn near_feature(&self, entity_type: &str, name: &str) -> String {
        let listing = Request::new(&list_features::ROW, &[]).query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX));
        let found: Vec<String> = match self.page(listing).await {
            Some(page) => {
                let features = page.entries.iter().filter_map(|raw| read::<Feature>(raw.get().as_bytes()).ok());
                features.map(|feature| format!("{} {}", feature.entity_type, feature.name)).collect()
            }
            None => Vec::new(),
        };
        let wanted = format!("{entity_type} {name}");
        // The same name may belong to another entity type.
        let same_name = found.iter().find(|known| known.split(' ').nth(1) == Some(name)).cloned();
        let near = did_you_mean(&wanted, &found, "`liststore feature list` shows all");
        let same_name = same_name.map(|known| format!("did you mean {known}? `liststore feature list` shows all"));
        near.or(same_name)
            .unwrap_or_else(|| format!("`liststore feature create {wanted} --value-type string --ttl 30d` creates it"))
    }

    async fn versions(&self, entity_type: &str, name: &str) -> Option<String> {
        let request = Request::new(&get_feature::ROW, &[entity_type, name]);
        let feature: Feature = read(&self.send_once(&request).await.ok()?.body).ok()?;
        Some(known_versions(&feature))
    }

    /// The names of a listing's first page.
    async fn names(&self, request: Request) -> Option<Vec<String>> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(alias = "entity_type")]
            name: String,
        }
        #[derive(Deserialize)]
        struct Listing {
            #[serde(alias = "entity_types")]
            indexes: Vec<Named>,
        }
        let listing: Listing = read(&self.send_once(&request).await.ok()?.body).ok()?;
        Some(listing.indexes.into_iter().map(|named| named.name).collect())
    }

    async fn page(&self, request: Request) -> Option<RawPage> {
        read(&self.send_once(&request).await.ok()?.body).ok()
    }
}

/// The versions of a feature, in words.
pub fn known_versions(feature: &Feature) -> String {
    let labels = feature.versions.iter().map(|version| match version.version.as_str() {
        "" => "the default version (without --version)".to_owned(),
        label => label.to_owned(),
    });
    format!("it has {}", labels.collect::<Vec<_>>().join(", "))
}

/// The remedy for a caller without permission.
fn of_caller(status: u16, key_option: &str) -> Option<String> {
    match status {
        401 => Some(format!("pass an API key with {key_option}")),
        403 => Some(format!("use a key with that permission: {key_option}")),
        _ => None,
    }
}

/// The closest of some names, if one is close.
fn did_you_mean(wanted: &str, known: &[String], all: &str) -> Option<String> {
    let distance = |known: &&String| strsim::osa_distance(wanted, known);
    let nearest = known.iter().min_by_key(distance)?;
    // Two slips, or one in three characters of a long name.
    let is_near = distance(&nearest) <= (wanted.chars().count() / 3).clamp(2, 6);
    is_near.then(|| format!("did you mean {nearest}? {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_proposed() {
        let known = ["customer purchase", "user seen"].map(str::to_owned);
        let proposed = |wanted| did_you_mean(wanted, &known, "all").unwrap_or_default();
        assert_eq!(proposed("customer purchases"), "did you mean customer purchase? all");
        assert_eq!(proposed("user sene"), "did you mean user seen? all");
        assert_eq!(proposed("user click"), "");
        assert_eq!(did_you_mean("a", &[], "all"), None);
    }
}
