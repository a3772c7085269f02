//! Reads a server's pool of list actors, and resizes it, over its HTTP API.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use liststore_client::{Client, ClientError, Request, Retries, ServerUrl, Tls, Token};
use liststore_contract::operations::resize_pool::PoolInput;
use liststore_contract::operations::{get_pool, readyz, resize_pool};
use liststore_contract::wire::{HealthRead, Pool};

use super::decide::PodPool;
use super::resource::ListActorPoolSpec;

/// A working pod answers immediately.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// A change is answered after sessions are opened, and operations have ended.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(45);
/// Members of a Liststore server's health report.
const CHECKS: [&str; 2] = ["item_store", "catalog"];

/// The credentials of the operator, and its trusted authorities.
#[derive(Debug, Clone)]
pub struct Pods {
    token_file: Option<PathBuf>,
    tls: Tls,
}

/// Where a pod accepts changes of its pool.
#[derive(Debug, Clone)]
pub struct Target {
    address: IpAddr,
    port: u16,
    /// The name in its certificate, if it has one.
    server_name: Option<String>,
}

impl Target {
    pub fn new(address: IpAddr, spec: &ListActorPoolSpec) -> Self {
        let server_name = spec.admin_tls.as_ref().map(|tls| tls.server_name.clone());
        Self { address, port: u16::try_from(spec.admin_port).unwrap_or_default(), server_name }
    }

    fn url(&self) -> Result<ServerUrl, String> {
        let address = SocketAddr::new(self.address, self.port);
        let url = match &self.server_name {
            Some(name) => format!("https://{name}:{}", self.port),
            None => format!("http://{address}"),
        };
        Ok(ServerUrl::parse(&url)?.at(address))
    }
}

impl Pods {
    pub fn new(token_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Self {
        Self { token_file, tls: Tls { ca_file, certificate_file: None } }
    }

    /// The state of a pod. It never fails, because a silent pod is a finding too.
    pub async fn ask(&self, target: &Target) -> PodPool {
        let request = Request::new(&get_pool::ROW, &[]).within(ASK_TIMEOUT);
        let told = async {
            let client = self.client(target).await?;
            client.ask::<Pool>(&request).await.map_err(|error| error.to_string())
        };
        match told.await {
            Ok(Pool { actors, resizing_to, .. }) => {
                PodPool::Has { actors: i32::try_from(actors).unwrap_or(i32::MAX), is_resizing: resizing_to.is_some() }
            }
            Err(reason) => PodPool::Silent(reason),
        }
    }

    pub async fn resize(&self, target: &Target, actors: i32) -> Result<(), String> {
        let size = PoolInput { actors: usize::try_from(actors).ok(), permits_per_actor: None };
        let failed = |error: ClientError| error.to_string();
        let request = Request::new(&resize_pool::ROW, &[]).body(&size).map_err(failed)?.within(RESIZE_TIMEOUT);
        self.client(target).await?.send(&request).await.map(|_| ()).map_err(failed)
    }

    /// A client that presents the operator's key, once the pod has proved to be a server.
    async fn client(&self, target: &Target) -> Result<Client, String> {
        let url = target.url()?.with_tls(self.tls.clone());
        let failed = |error: ClientError| error.to_string();
        let stranger = Client::new(url.clone(), None, Retries::NONE).map_err(failed)?;
        let health = stranger.ask::<HealthRead>(&Request::new(&readyz::ROW, &[]).within(ASK_TIMEOUT)).await;
        let health = health.map_err(|error| format!("not a ready Liststore server: {error}"))?;
        if let Some(missing) = CHECKS.into_iter().find(|check| !health.checks.contains_key(*check)) {
            return Err(format!("not a Liststore server: its health has no {missing}"));
        }
        let token = self.token_file.as_deref().map(token).transpose()?;
        Client::new(url.with_token(token), None, Retries::NONE).map_err(failed)
    }
}

/// Reads the file each time, because a changed Secret reaches it without a restart.
fn token(path: &Path) -> Result<Token, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Token::parse(text.trim()).ok_or_else(|| format!("{} has no valid API key or token", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers every request with the same body, and returns its port and the requests.
    async fn peer(body: &'static str) -> (u16, Arc<Mutex<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(String::new())));
        let requests = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let read = stream.read(&mut request).await.unwrap();
                requests.lock().unwrap().push_str(&String::from_utf8_lossy(&request[..read]));
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
                     close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (port, asked)
    }

    async fn asked_with_a_key(body: &'static str) -> (PodPool, String) {
        const KEY: &str = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmVk";
        let dir = std::env::temp_dir().join(format!("liststore-operator-{}-{}", std::process::id(), body.len()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("token");
        std::fs::write(&file, KEY).unwrap();
        let (port, asked) = peer(body).await;
        let target = Target { address: "127.0.0.1".parse().unwrap(), port, server_name: None };
        let told = Pods::new(Some(file), None).ask(&target).await;
        std::fs::remove_dir_all(dir).unwrap();
        let asked = asked.lock().unwrap().clone();
        (told, asked)
    }

    #[tokio::test]
    async fn another_program_does_not_receive_the_key() {
        for body in ["{}", r#"{"status": "pass", "checks": {"item_store": "pass"}}"#, "hello"] {
            let (told, asked) = asked_with_a_key(body).await;
            assert!(matches!(told, PodPool::Silent(_)), "{told:?}");
            assert!(asked.contains("GET /readyz") && !asked.to_lowercase().contains("authorization"), "{asked}");
        }
    }

    #[tokio::test]
    async fn a_server_receives_the_key_with_the_second_request() {
        let body = r#"{"status": "pass", "checks": {"item_store": "pass", "catalog": "pass"}}"#;
        let (_, asked) = asked_with_a_key(body).await;
        let (first, second) = asked.split_once("GET /v1/pool").unwrap();
        assert!(!first.to_lowercase().contains("authorization"), "{first}");
        assert!(second.to_lowercase().contains("authorization: bearer ey"), "{second}");
    }

    #[test]
    fn a_certificate_is_checked_for_the_name_at_the_address_of_the_pod() {
        let target = |server_name: Option<&str>| Target {
            address: "fd00::7".parse().unwrap(),
            port: 8443,
            server_name: server_name.map(str::to_owned),
        };
        assert_eq!(target(None).url().unwrap().to_string(), "http://[fd00::7]:8443");
        assert_eq!(target(Some("lists.example")).url().unwrap().to_string(), "https://lists.example:8443");
    }
}
