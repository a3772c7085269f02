//! One connection: a request goes out, its answer comes in, and the next request waits for it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::protocol::{Answer, Malformed, Parsed, Protocol};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Room that every read has at least.
const READ_BYTES_MIN: usize = 16 << 10;

#[derive(Debug)]
pub struct Connection {
    stream: Option<TcpStream>,
    /// The request: whoever uses the connection renders into it.
    pub request: Vec<u8>,
    /// The last answer.
    input: Vec<u8>,
    /// Whether an answer has come through this stream: only then may its loss be the end of an
    /// idle connection, rather than an answer to the request.
    used: bool,
}

/// Why there is no answer. The connection is closed then.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection ended; `idle` if it may have done so before the request arrived.
    #[error("the connection was lost: {source}")]
    Lost { source: io::Error, idle: bool },
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("no answer in time")]
    TimedOut,
}

impl Broken {
    /// The generator's own code for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect_failed",
            Self::Lost { .. } => "connection_lost",
            Self::Malformed(_) => "bad_answer",
            Self::TimedOut => "timeout",
        }
    }
}

impl Connection {
    pub fn new() -> Self {
        Self { stream: None, request: Vec::new(), input: Vec::with_capacity(READ_BYTES_MIN), used: false }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects to the first of the addresses that takes it.
    pub async fn open(&mut self, addresses: &[SocketAddr]) -> Result<(), Broken> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses));
        let stream = connecting
            .await
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(Broken::Connect)?;
        self.stream = Some(stream);
        self.used = false;
        Ok(())
    }

    /// Sends the request, and waits for its answer for at most `timeout`.
    pub async fn exchange(&mut self, protocol: &Protocol, timeout: Duration) -> Result<Answer, Broken> {
        let answered = match tokio::time::timeout(timeout, self.exchange_patiently(protocol)).await {
            Ok(answered) => answered,
            Err(_) => Err(Broken::TimedOut),
        };
        match &answered {
            Ok(answer) if answer.keep_alive => self.used = true,
            _ => self.stream = None,
        }
        answered
    }

    async fn exchange_patiently(&mut self, protocol: &Protocol) -> Result<Answer, Broken> {
        let idle = self.used;
        let lost = |source, idle| Broken::Lost { source, idle };
        let stream = self.stream.as_mut().ok_or_else(|| lost(io::ErrorKind::NotConnected.into(), false))?;
        stream.write_all(&self.request).await.map_err(|e| lost(e, idle))?;
        self.input.clear();
        let mut wanted = 1;
        loop {
            self.input.reserve(READ_BYTES_MIN.max(wanted - self.input.len()));
            let idle = idle && self.input.is_empty();
            match stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into(), idle)),
                Ok(_) if self.input.len() < wanted => {}
                Ok(_) => match protocol.parse(&self.input)? {
                    Parsed::Complete(answer) if answer.bytes == self.input.len() => return Ok(answer),
                    Parsed::Complete(_) => return Err(Malformed("more bytes than one answer has".into()).into()),
                    Parsed::Partial { bytes } => wanted = bytes.unwrap_or(self.input.len() + 1),
                },
                Err(error) => return Err(lost(error, idle)),
            }
        }
    }

    /// The body of the answer that came last.
    pub fn body(&self, answer: &Answer) -> &[u8] {
        &self.input[answer.body.clone()]
    }
}
