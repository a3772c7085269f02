//! The command line of `liststore-operator`.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use kube::{Client, CustomResourceExt};
use liststore_contract::domain::SystemClock;

use super::controller;
use super::log;
use super::pods::Pods;
use super::probes::{self, Progress};
use super::resource::ListActorPool;

/// Scales Deployments of Liststore and their list actors as ListActorPool objects specify.
#[derive(Debug, Parser)]
#[command(name = "liststore-operator", version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Run),
    /// Print the CustomResourceDefinition of ListActorPool
    Crd,
}

/// Reconcile the pools of one namespace until a signal
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore-operator run --token-file /secrets/token")]
struct Run {
    /// The namespace [default: from the kubeconfig, or the pod's namespace]
    #[arg(long, env = "LISTSTORE_OPERATOR_NAMESPACE")]
    namespace: Option<String>,
    /// A file with an API key with the role scaler; without it, pods must be open
    #[arg(long, env = "LISTSTORE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the trusted authorities, for pools with adminTls [default: the system's authorities]
    #[arg(long, env = "LISTSTORE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The address of /livez, /readyz and /metrics
    #[arg(long, env = "LISTSTORE_OPERATOR_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:8081")]
    listen: SocketAddr,
    /// The log filter, such as info or liststore=debug,warn
    #[arg(long, env = "LISTSTORE__LOG__FILTER", default_value = "info")]
    log_filter: String,
}

/// Runs one command to its end.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command_line = match CommandLine::try_parse_from(arguments) {
        Ok(command_line) => command_line,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let done = match command_line.command {
        Command::Run(arguments) => run_operator(arguments),
        Command::Crd => print_definition(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Print the definition of the custom resource, as it is in k8s/operator/crd.yaml
fn print_definition() -> Result<(), String> {
    let text = serde_saphyr::to_string(&ListActorPool::crd()).map_err(|error| error.to_string())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn run_operator(Run { namespace, token_file, ca_file, listen, log_filter }: Run) -> Result<(), String> {
    log::init(&log_filter)?;
    // Two libraries would each choose one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let client = Client::try_default().await.map_err(|error| {
            format!("cannot find a cluster, neither from a pod's service account nor from a kubeconfig: {error}")
        })?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        tracing::info!(namespace, "reconciling the pools of this namespace");
        let progress = Arc::new(Progress::default());
        let probes = tokio::spawn(probes::serve(probes::bind(listen).await?, Arc::clone(&progress)));
        let pods = Pods::new(token_file, ca_file);
        controller::run(client, &namespace, pods, progress, Arc::new(SystemClock)).await;
        probes.abort();
        tracing::info!("stopped");
        Ok(())
    })
}
