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
        let reported = async {
            let client = self.client(target).await?;
            client.ask::<Pool>(&request).await.map_err(|error| error.to_string())
        };
        match reported.await {
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};
    use std::sync::{Arc, Mutex};

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const KEY: &str = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmVk";
    const HEALTH: &str = r#"{"status": "pass", "checks": {"item_store": "pass", "catalog": "pass"}}"#;
    const POOL: &str = r#"{"actors": 2, "permits_per_actor": 64, "states": ["live", "live"],
                           "permits": {"bound": 128, "limit": 128, "in_use": 0, "waiting": 0}}"#;

    /// A new directory with a key in the file `token`.
    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("liststore-operator-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("token"), KEY).unwrap();
        dir
    }

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

    async fn ask_with_key(body: &'static str) -> (PodPool, String) {
        let dir = scratch(&body.len().to_string());
        let (port, asked) = peer(body).await;
        let target = Target { address: "127.0.0.1".parse().unwrap(), port, server_name: None };
        let reported = Pods::new(Some(dir.join("token")), None).ask(&target).await;
        std::fs::remove_dir_all(dir).unwrap();
        let asked = asked.lock().unwrap().clone();
        (reported, asked)
    }

    #[tokio::test]
    async fn another_program_does_not_receive_the_key() {
        for body in ["{}", r#"{"status": "pass", "checks": {"item_store": "pass"}}"#, "hello"] {
            let (reported, asked) = ask_with_key(body).await;
            assert!(matches!(reported, PodPool::Silent(_)), "{reported:?}");
            assert!(asked.contains("GET /readyz") && !asked.to_lowercase().contains("authorization"), "{asked}");
        }
    }

    #[tokio::test]
    async fn a_server_receives_the_key_with_the_second_request() {
        let (_, asked) = ask_with_key(HEALTH).await;
        let (first, second) = asked.split_once("GET /v1/pool").unwrap();
        assert!(!first.to_lowercase().contains("authorization"), "{first}");
        assert!(second.to_lowercase().contains("authorization: bearer ey"), "{second}");
    }

    /// An authority, its certificate for `lists.example`, and another authority.
    fn make_certificates(dir: &Path) {
        let openssl = |arguments: &str| {
            let mut command = Command::new("openssl");
            let done = command.args(arguments.split(' ')).current_dir(dir).stdin(Stdio::null()).output().unwrap();
            assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for name in ["ca", "other"] {
            openssl(&format!("req -x509 {key} -subj /CN={name} -days 2 -keyout {name}-key.pem -out {name}.pem"));
        }
        openssl(&format!("req {key} -subj /CN=server -keyout server-key.pem -out server.csr"));
        std::fs::write(dir.join("names"), "subjectAltName=DNS:lists.example").unwrap();
        openssl(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out server.pem",
        );
    }

    /// Answers over TLS as a server does. Returns its port and the decrypted requests.
    fn peer_with_tls(dir: &Path) -> (u16, Arc<Mutex<String>>) {
        let chain = vec![CertificateDer::from_pem_file(dir.join("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(dir.join("server-key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(String::new())));
        let requests = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                // A client that does not believe the certificate leaves.
                let _ = answer(StreamOwned::new(connection, stream.unwrap()), &requests);
            }
        });
        (port, asked)
    }

    fn answer(stream: impl Read + Write, requests: &Mutex<String>) -> std::io::Result<()> {
        let (mut stream, mut request) = (BufReader::new(stream), String::new());
        while !request.ends_with("\r\n\r\n") {
            if stream.read_line(&mut request)? == 0 {
                return Ok(());
            }
        }
        let lower = request.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body)?;
        requests.lock().unwrap().push_str(&(request.clone() + &String::from_utf8_lossy(&body) + "\n"));
        let body = if request.starts_with("GET /readyz") { HEALTH } else { POOL };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length";
        write!(stream.get_mut(), "{head}: {}\r\n\r\n{body}", body.len())?;
        stream.get_mut().flush()
    }

    #[tokio::test]
    async fn a_server_with_tls_receives_the_key_if_an_authority_of_the_file_signed_its_name() {
        let dir = scratch("tls");
        make_certificates(&dir);
        let (port, asked) = peer_with_tls(&dir);
        let target = |name: Option<&str>| Target {
            address: "127.0.0.1".parse().unwrap(),
            port,
            server_name: name.map(str::to_owned),
        };
        let pods = |ca_file: Option<&str>| Pods::new(Some(dir.join("token")), ca_file.map(|file| dir.join(file)));
        let (lists, other) = (Some("lists.example"), Some("other.example"));
        for (ca_file, name) in
            [(Some("other.pem"), lists), (None, lists), (Some("ca.pem"), other), (Some("ca.pem"), None)]
        {
            let reported = pods(ca_file).ask(&target(name)).await;
            assert!(matches!(reported, PodPool::Silent(_)), "{ca_file:?}, {name:?}: {reported:?}");
            pods(ca_file).resize(&target(name), 3).await.unwrap_err();
            assert_eq!(*asked.lock().unwrap(), "", "{ca_file:?}, {name:?}");
        }

        // The file is read each time: a replaced authority needs no restart.
        let pods = pods(Some("trusted.pem"));
        std::fs::copy(dir.join("other.pem"), dir.join("trusted.pem")).unwrap();
        assert!(matches!(pods.ask(&target(lists)).await, PodPool::Silent(_)));
        std::fs::copy(dir.join("ca.pem"), dir.join("trusted.pem")).unwrap();
        let reported = pods.ask(&target(lists)).await;
        assert!(matches!(reported, PodPool::Has { actors: 2, is_resizing: false }), "{reported:?}");
        let asked_for_it = asked.lock().unwrap().clone();
        let (first, second) = asked_for_it.split_once("GET /v1/pool").unwrap();
        assert!(first.starts_with("GET /readyz") && !first.to_lowercase().contains("authorization"), "{first}");
        assert!(second.contains(&format!("Bearer {KEY}")), "{second}");
        pods.resize(&target(lists), 3).await.unwrap();
        let change = asked.lock().unwrap().split_off(asked_for_it.len());
        assert!(change.contains("PUT /v1/pool"), "{change}");
        assert!(change.contains(&format!("Bearer {KEY}")) && change.contains("\"actors\":3"), "{change}");
        std::fs::remove_dir_all(dir).unwrap();
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
