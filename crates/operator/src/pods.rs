//! Asking a server for its pool of list actors, and for another size of it, over its HTTP API.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use liststore_client::{Client, ClientError, Request, Retries, ServerUrl, Token};
use liststore_contract::operations::{get_pool, resize_pool};
use liststore_contract::wire::{Pool, PoolInput};

use super::decide::PodPool;

/// A pod answers at once or not at all.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Sessions are opened, and operations end, before a change is answered.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(45);

/// How the operator shows who it is.
#[derive(Debug, Clone)]
pub struct Pods {
    token_file: Option<PathBuf>,
}

impl Pods {
    pub fn new(token_file: Option<PathBuf>) -> Self {
        Self { token_file }
    }

    /// The state of a pod. It never fails: a pod that does not answer is a finding, too.
    pub async fn ask(&self, address: IpAddr, port: i32) -> PodPool {
        let request = Request::new(&get_pool::ROW, &[]).within(ASK_TIMEOUT);
        let told = async { self.client(address, port)?.ask::<Pool>(&request).await.map_err(|e| e.to_string()) };
        match told.await {
            Ok(Pool { actors, resizing_to, .. }) => {
                PodPool::Has { actors: i32::try_from(actors).unwrap_or(i32::MAX), is_resizing: resizing_to.is_some() }
            }
            Err(reason) => PodPool::Silent(reason),
        }
    }

    pub async fn resize(&self, address: IpAddr, port: i32, actors: i32) -> Result<(), String> {
        let size = PoolInput { actors: usize::try_from(actors).ok(), permits_per_actor: None };
        let failed = |error: ClientError| error.to_string();
        let request = Request::new(&resize_pool::ROW, &[]).body(&size).map_err(failed)?.within(RESIZE_TIMEOUT);
        self.client(address, port)?.send(&request).await.map(|_| ()).map_err(failed)
    }

    fn client(&self, address: IpAddr, port: i32) -> Result<Client, String> {
        let host = match address {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let token = self.token_file.as_deref().map(token).transpose()?;
        let url = ServerUrl::parse(&format!("http://{host}:{port}"))?.with_token(token);
        Client::new(url, None, Retries::NONE).map_err(|error| error.to_string())
    }
}

/// Read each time: a Secret that has changed reaches the file without a restart.
fn token(path: &Path) -> Result<Token, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Token::parse(text.trim()).ok_or_else(|| format!("{} has no valid API key or token", path.display()))
}
