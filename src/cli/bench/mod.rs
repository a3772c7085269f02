//! `liststore bench`: load for a running server. [`crate::loadgen`] generates and measures it.

mod arguments;
mod print;

pub(super) use arguments::Arguments;

use super::block_on;
use super::failure::Failure;
use crate::loadgen::{self, Finding};

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let options = arguments.options().map_err(Failure::Usage)?;
    let Some(finding) = block_on(async { Ok(loadgen::run(options).await?) })? else {
        return Ok(());
    };
    let Finding { report, interrupted, lost } = finding;
    print::print(&report, arguments.output)?;
    match lost {
        Some(reason) => Err(Failure::failed(format!("the server was lost: {reason}"))),
        None if report.wrong_answers > 0 => Err(Failure::failed("wrong answers were found")),
        None if report.total.requests == 0 && !interrupted => Err(Failure::failed("no request succeeded")),
        None => Ok(()),
    }
}
