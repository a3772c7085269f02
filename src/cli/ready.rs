//! `liststore ready`: checks whether a server reports that it is ready. For callers that can run a command and have no
//! HTTP client.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use liststore_contract::operations::readyz;

use super::block_on;
use super::failure::Failure;
use super::output::{FormatOption, show};
use super::parse::TlsArguments;
use crate::client::{Client, Request, Retries, ServerUrl, printable, read};
use crate::wire::HealthRead;

const EXAMPLES: &str = "\
Examples:
  liststore ready
  liststore ready --url http://127.0.0.1:9090

The exit status is 0 if GET /readyz returns 200, and 1 with the reason
otherwise. It needs no API key, and also works at the administration address
(admin.listen).";

/// Check whether a server is ready
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The server's URL
    #[arg(
        long,
        env = "LISTSTORE_URL",
        hide_env_values = true,
        default_value = ServerUrl::DEFAULT,
        value_parser = ServerUrl::parse
    )]
    url: ServerUrl,
    #[command(flatten)]
    tls: TlsArguments,
    /// How long to wait for the response
    #[arg(long, default_value = "3")]
    timeout_secs: NonZeroU32,
    #[command(flatten)]
    format: FormatOption,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { url, tls, timeout_secs, format } = arguments;
    let url = url.with_tls(tls.tls());
    let request = Request::new(&readyz::ROW, &[]).within(Duration::from_secs(u64::from(timeout_secs.get())));
    let answer = block_on(async { Ok(Client::new(url, None, Retries::NONE)?.for_people().send(&request).await) })?;
    let body = answer?.body;
    show(&body, format.output, |output| {
        let health: HealthRead = read(&body)?;
        output.line(&format!("ready: {}", printable(&health.to_string())))
    })
}
