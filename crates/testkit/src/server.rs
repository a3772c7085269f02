//! Starts the real application on a free port, for tests over HTTP.
//!
//! Each test has a separate server, on a separate system, and stops it when it is dropped.

use std::sync::Arc;
use std::thread::JoinHandle;

use liststore::app::{Application, Ready, StartError, Stores};
use liststore::config::{Flag, Layers, Settings};
use liststore::domain::{Clock, SystemClock};
use liststore::telemetry::Log;
use tokio::sync::oneshot;

use crate::secrets;

/// A running server.
pub struct TestServer {
    pub url: String,
    pub administration_url: Option<String>,
    about: Ready,
    ready: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The settings of a small server with the stores in memory, and further given ones.
pub fn settings(given: &[(&'static str, &str)]) -> Settings {
    let small = [
        ("http.listen", "127.0.0.1:0"),
        ("http.workers", "1"),
        ("http.shutdown_grace_secs", "5"),
        ("items.actors", "2"),
        // A machine that is busy with other things is slow, and most tests want every answer.
        ("items.operation_timeout_ms", "20000"),
        ("metadata.call_timeout_ms", "20000"),
        ("http.socket_wait_ms", "20000"),
        ("items.store", "memory"),
        ("metadata.store", "memory"),
    ];
    let flags: Vec<_> = small
        .iter()
        .filter(|(key, _)| given.iter().all(|(other, _)| other != key))
        .chain(given)
        .map(|(key, value)| Flag { flag: "test", key, value: (*value).to_owned() })
        .collect();
    secrets::watch(secrets::in_settings(given.iter().map(|(key, value)| (*key, *value))));
    let layers = Layers { config_file: None, environment: vec![], flags: &flags };
    Settings::load_from(&layers).unwrap().settings
}

/// Starts a server with the stores of the settings, and waits until it is ready.
pub async fn spawn_server(settings: Settings) -> TestServer {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut server = {
        let (settings, clock) = (settings.clone(), Arc::clone(&clock));
        launch(settings.clone(), Arc::clone(&clock), async move || Stores::open(&settings, &clock).await).await
    };
    server.ready().await;
    server
}

/// Starts a server with other stores, which may prevent it from becoming ready.
pub async fn spawn_with(settings: Settings, clock: Arc<dyn Clock>, stores: Stores) -> TestServer {
    launch(settings, clock, async move || Ok(stores)).await
}

async fn launch(
    settings: Settings,
    clock: Arc<dyn Clock>,
    stores: impl AsyncFnOnce() -> Result<Stores, StartError> + Send + 'static,
) -> TestServer {
    let (listening, started) = oneshot::channel();
    let (on_ready, ready) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        actix::System::new().block_on(async move {
            let application =
                Application::build(&settings, stores().await.unwrap(), clock, Arc::new(Log::unset())).await.unwrap();
            listening.send(application.about()).unwrap();
            // No test waits for a server that is not meant to become ready.
            application.run_until_stopped(move |_| on_ready.send(()).unwrap_or_default()).await.unwrap();
        });
    });
    let about = started.await.expect("the server did not start");
    let administration_url = about.administration_url.clone();
    TestServer { url: about.url.clone(), administration_url, about, ready: Some(ready), thread: Some(thread) }
}

impl TestServer {
    /// Waits until the server reports that it is ready.
    pub async fn ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.await.expect("the server stopped before it was ready");
        }
    }

    /// The address to connect to, for bytes that no HTTP client would send.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// The status of an answer, and its body.
    pub async fn health(&self, path: &str) -> (u16, serde_json::Value) {
        // The first one to do so wins, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answer = reqwest::get(format!("{}{path}", self.url)).await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Begins to stop the server, as a SIGTERM does.
    pub fn begin_stop(&self) {
        self.about.stopper.stop();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.begin_stop();
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = ended
            && !std::thread::panicking()
        {
            panic!("the server ended with a panic");
        }
        secrets::check_watched();
    }
}
