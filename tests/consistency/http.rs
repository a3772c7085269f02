//! One client's connection: a request goes out on it at most once, and it is known whether it may
//! have reached the server.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer later than this counts as missing: far beyond every deadline of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the server listens, and which of its starts that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `HOST:PORT`.
    pub address: String,
    pub incarnation: usize,
}

#[derive(Debug)]
pub enum Trouble {
    /// The request did not leave.
    NotSent(String),
    /// It left, or may have; no whole answer came back.
    Lost(String),
}

pub struct Answer {
    pub status: StatusCode,
    pub etag: Option<String>,
    pub body: Bytes,
}

#[derive(Default)]
pub struct Connection {
    open: Option<(Endpoint, SendRequest<Full<Bytes>>)>,
}

impl Connection {
    pub async fn exchange(
        &mut self,
        endpoint: &Endpoint,
        method: Method,
        path_and_query: &str,
        body: Option<String>,
    ) -> Result<Answer, Trouble> {
        self.exchange_with(endpoint, method, path_and_query, &[], body).await
    }

    /// Sends a request with further headers.
    pub async fn exchange_with(
        &mut self,
        endpoint: &Endpoint,
        method: Method,
        path_and_query: &str,
        headers: &[(&'static str, String)],
        body: Option<String>,
    ) -> Result<Answer, Trouble> {
        let request = Request::builder()
            .method(method)
            .uri(path_and_query)
            .header("host", &endpoint.address)
            .header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request =
            request.body(Full::from(body.unwrap_or_default())).map_err(|error| Trouble::NotSent(error.to_string()))?;
        let mut sender = self.sender(endpoint).await?;
        let exchanged = timeout(ANSWER_TIMEOUT, async {
            let response = match sender.send_request(request).await {
                Ok(response) => response,
                Err(error) if error.is_canceled() => return Err(Trouble::NotSent(error.to_string())),
                Err(error) => return Err(Trouble::Lost(error.to_string())),
            };
            let status = response.status();
            let etag = response.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
            let body = response.into_body().collect().await.map_err(|error| Trouble::Lost(error.to_string()))?;
            Ok(Answer { status, etag, body: body.to_bytes() })
        });
        let answer =
            exchanged.await.unwrap_or_else(|_| Err(Trouble::Lost(format!("no answer in {ANSWER_TIMEOUT:?}"))))?;
        self.open = Some((endpoint.clone(), sender));
        Ok(answer)
    }

    /// The connection that is open, if it still is, or a new one.
    async fn sender(&mut self, endpoint: &Endpoint) -> Result<SendRequest<Full<Bytes>>, Trouble> {
        if let Some((open_to, mut sender)) = self.open.take()
            && open_to == *endpoint
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let not_sent = |error: &dyn std::fmt::Display| Trouble::NotSent(error.to_string());
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(&endpoint.address));
        let stream = connecting.await.map_err(|e| not_sent(&e))?.map_err(|e| not_sent(&e))?;
        stream.set_nodelay(true).map_err(|e| not_sent(&e))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| not_sent(&e))?;
        // Its end shows in the answers: there is no receiver here.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}
