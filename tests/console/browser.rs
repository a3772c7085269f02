//! One Chromium for all tests, through its driver.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};

use crate::page::Page;

/// The colours and the size of pages.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub scheme: &'static str,
}

pub struct Browser {
    client: Client,
    process: Child,
}

impl Browser {
    /// None if there is no browser on this machine.
    pub async fn start() -> Option<Self> {
        let binary = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists())?;
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let port = port(&mut process);
        let mut arguments =
            vec!["--headless=new", "--disable-gpu", "--force-device-scale-factor=1", "--disable-dev-shm-usage"];
        // A browser that belongs to root has no sandbox; it sees our own pages only.
        if rustix::process::geteuid().is_root() {
            arguments.push("--no-sandbox");
        }
        let wanted = json!({
            "goog:chromeOptions": {"binary": binary, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
            // Milliseconds: as long as tests are patient.
            "timeouts": {"script": 300_000, "pageLoad": 300_000},
        });
        let Value::Object(wanted) = wanted else { unreachable!("it is one") };
        let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
        let client = builder.capabilities(wanted).connect(&format!("http://127.0.0.1:{port}")).await.unwrap();
        Some(Self { client, process })
    }

    /// A new tab, without data of another one.
    pub async fn page(&self, look: Look) -> Page {
        let tab = self.client.new_window(true).await.unwrap().handle;
        self.client.switch_to_window(tab.clone()).await.unwrap();
        let page = Page::new(self.client.clone(), tab, look);
        // Messages of earlier tests do not belong to this one.
        page.log().await;
        let size = json!({"width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false});
        page.command("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = json!({"features": [
            {"name": "prefers-color-scheme", "value": look.scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        page.command("Emulation.setEmulatedMedia", scheme).await;
        page
    }

    pub async fn stop(mut self) {
        self.client.close().await.unwrap();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The driver's listening port, according to the driver.
fn port(process: &mut Child) -> u16 {
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut text = String::new();
    for line in lines.map_while(Result::ok) {
        let port = line.split("on port ").nth(1).map(|rest| rest.trim_end_matches('.'));
        if let Some(port) = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0) {
            return port;
        }
        text.push_str(&line);
    }
    panic!("the driver does not say where it listens: {text}");
}
