//! `liststore bench`: load for a running server. [`crate::loadgen`] generates and measures it.

mod arguments;
mod print;

pub(super) use arguments::Arguments;

use liststore_contract::operations::purge_feature::PurgeInput;
use liststore_contract::operations::{delete_feature, get_feature, purge_feature};

use super::block_on;
use super::failure::Failure;
use super::jobs;
use crate::client::Request;
use crate::domain::FeatureId;
use crate::loadgen::{self, Finding};
use crate::wire::Feature;

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let options = arguments.options().map_err(Failure::Usage)?;
    let id = FeatureId { entity_type: arguments.entity_type.clone(), name: arguments.feature.clone() };
    let measured = block_on(async { Ok(loadgen::run(options).await?) })
        .and_then(|finding| finding.map_or(Ok(()), |finding| judged(finding, &id, &arguments)));
    if arguments.clean_up {
        let cleaned = block_on(clean_up(&id, &arguments));
        return measured.and(cleaned);
    }
    measured
}

fn judged(
    Finding { report, interrupted, lost }: Finding,
    id: &FeatureId,
    arguments: &Arguments,
) -> Result<(), Failure> {
    print::print(&report, id, arguments.output)?;
    match lost {
        Some(reason) => Err(Failure::failed(format!("the server was lost: {reason}"))),
        None if report.wrong_answers > 0 => Err(Failure::failed("wrong answers were found")),
        None if report.total.requests == 0 && !interrupted => Err(Failure::failed("no request succeeded")),
        None => Ok(()),
    }
}

/// Removes the lists of a data set, and then its feature.
async fn clean_up(id: &FeatureId, arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.server.client(None)?;
    let feature: Feature = client.ask(&Request::of_feature(&get_feature::ROW, id)).await?;
    if !loadgen::is_data_set(&feature.labels) {
        return Err(Failure::failed(format!("{id} is not a data set of liststore bench: it is not removed")));
    }
    let input = PurgeInput { version: None, deleted_only: false, lists_per_second: None };
    jobs::finish(&client, &Request::of_feature(&purge_feature::ROW, id).body(&input)?).await?;
    client.send(&Request::of_feature(&delete_feature::ROW, id)).await?;
    eprintln!("removed the data set {id}");
    Ok(())
}
