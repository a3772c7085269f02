//! Which contact points answer, asked all at once: a node that is gone without a word must not hold
//! up the opening of a session, and the driver tries them one after another.
//!
//! A contact point answers if it takes a connection, agrees on TLS where that is configured, and
//! answers OPTIONS, which every node does before any login (CQL binary protocol, version 4, sections
//! 2 and 4.1.3). A frozen node accepts connections and sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::connection_errors::{BROKEN_SETUP, NOT_CQL, explain_io_error};
use super::tls::Tls;

/// How long a contact point may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Once one contact point has answered the others have this long. Slower ones are connected later.
const GRACE: Duration = Duration::from_millis(250);
/// An OPTIONS request: version 4, no flags, stream 0, opcode 5, no body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
/// The version byte of an answer, in every version, has this bit.
const ANSWER: u8 = 0x80;
const HEADER_BYTES: usize = 9;

/// The contact points that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    pub answering: BTreeSet<SocketAddr>,
    /// Whether these are all addresses of all contact points.
    pub all: bool,
}

/// The addresses that answer, or why none does, in words for an operator.
pub async fn ask_all(contact_points: &[String], tls: Option<&Tls>) -> Result<Reached, String> {
    let addresses = resolve(contact_points).await?;
    let all_addresses = addresses.clone();
    let mut asked: FuturesUnordered<_> =
        addresses.into_iter().map(async |address| (address, ask(address, tls).await)).collect();
    let (mut answering, mut failed, mut until) = (BTreeSet::new(), BTreeMap::new(), Instant::now() + PATIENCE);
    loop {
        tokio::select! {
            biased;
            answer = asked.next() => match answer {
                Some((address, Ok(()))) => {
                    answering.insert(address);
                    until = until.min(Instant::now() + GRACE);
                }
                Some((address, Err(reason))) => {
                    failed.insert(address, reason);
                }
                None => break,
            },
            () = sleep_until(until) => break,
        }
    }
    if answering.is_empty() {
        for address in all_addresses {
            failed.entry(address).or_insert_with(|| TOO_LONG.to_owned());
        }
        return Err(explain_failures(&failed));
    }
    let all = answering == all_addresses;
    Ok(Reached { answering, all })
}

const TOO_LONG: &str = "it does not respond: check its machine, its process, and that no firewall drops the packets";

/// The problem of each contact point, grouped by problem.
fn explain_failures(failed: &BTreeMap<SocketAddr, String>) -> String {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (address, reason) in failed {
        by_reason.entry(reason).or_default().push(address.to_string());
    }
    let reasons: Vec<String> =
        by_reason.into_iter().map(|(reason, addresses)| format!("{}: {reason}", addresses.join(", "))).collect();
    format!("no contact point of the cluster is usable; {}", reasons.join("; "))
}

/// All addresses of all contact points.
async fn resolve(contact_points: &[String]) -> Result<BTreeSet<SocketAddr>, String> {
    let looked_up = join_all(contact_points.iter().map(|point| timeout(PATIENCE, lookup_host(point)))).await;
    let addresses: BTreeSet<SocketAddr> = looked_up.into_iter().flatten().flatten().flatten().collect();
    if addresses.is_empty() {
        let names = contact_points.join(", ");
        return Err(format!("cannot resolve {names}: check items.cql.contact_points"));
    }
    Ok(addresses)
}

async fn ask(address: SocketAddr, tls: Option<&Tls>) -> Result<(), String> {
    let asked = timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await?;
        match tls {
            None => options(stream).await,
            Some(tls) => {
                let connector = TlsConnector::from(std::sync::Arc::clone(tls));
                // As the driver does: what certificates may name is the configuration's to decide.
                let name = ServerName::IpAddress(address.ip().into());
                options(connector.connect(name, stream).await?).await
            }
        }
    });
    match asked.await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(NOT_CQL.to_owned()),
        Ok(Err(error)) if closed(&error) => Err(BROKEN_SETUP.to_owned()),
        Ok(Err(error)) => Err(explain_io_error(&error)),
        Err(_) => Err(TOO_LONG.to_owned()),
    }
}

fn closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Whether the response is a CQL frame.
async fn options(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<bool> {
    stream.write_all(&OPTIONS).await?;
    stream.flush().await?;
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    Ok(header[0] & ANSWER != 0)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A listener that answers with these bytes and keeps the connection.
    async fn answers_with(bytes: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(bytes).await;
                kept.push(stream);
            }
        });
        address
    }

    #[tokio::test]
    async fn a_silent_contact_point_is_not_awaited() {
        let silent = answers_with(b"").await;
        let well = answers_with(&[0x84, 0, 0, 0, 6, 0, 0, 0, 0]).await;
        let began = Instant::now();
        let found = ask_all(&[silent, well.clone()], None).await.unwrap();
        assert!(!found.all);
        assert_eq!(found.answering.into_iter().map(|address| address.to_string()).collect::<Vec<_>>(), [well]);
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn the_reason_why_no_contact_point_answers_is_reported() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let refused = ask_all(&[free], None).await.unwrap_err();
        assert!(refused.contains("connection refused"), "{refused}");
        let http = ask_all(&[answers_with(b"HTTP/1.1 400 Bad Request").await], None).await.unwrap_err();
        assert!(http.ends_with(NOT_CQL), "{http}");
        let (one, other) = (answers_with(b"HTTP/1.1 400").await, answers_with(b"SSH-2.0-OpenSSH").await);
        let both = ask_all(&[one.clone(), other.clone()], None).await.unwrap_err();
        assert!(both.contains(&one) && both.contains(&other), "{both}");
        assert_eq!(both.matches(NOT_CQL).count(), 1, "the common problem is reported once: {both}");
        let nowhere = ask_all(&["no-such-host.invalid:9042".to_owned()], None).await.unwrap_err();
        assert!(nowhere.contains("items.cql.contact_points"), "{nowhere}");
    }
}
