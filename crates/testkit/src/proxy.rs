//! A TCP proxy that can hang: connections stay open, and new ones are accepted, but no byte passes. Before Postgres, it
//! can also delay the answer to one COMMIT, or cut the connection instead. It can be slow with new connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Which connections hang.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hang {
    None,
    /// All connections before the one with this number, permanently.
    Before(usize),
    All,
}

/// The treatment of the next answer to a COMMIT.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Commit {
    Passes,
    /// The COMMIT of the next change must be held.
    Awaited,
    /// A change is being made on the connection of this number.
    Changing(usize),
    Held,
    /// The connection ends instead.
    Cut,
}

/// A statement that a server sends only in a change.
const CHANGES: &[u8] = b"pg_notify";

/// Postgres's confirmation of a COMMIT: a `CommandComplete` (documentation of Postgres, "Message Formats").
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

pub struct Proxy {
    pub address: SocketAddr,
    hang: watch::Sender<Hang>,
    commit: Arc<watch::Sender<Commit>>,
    accepted: Arc<AtomicUsize>,
    /// How long no byte of a new connection passes.
    delay: watch::Sender<Duration>,
}

impl Proxy {
    /// Must be called on a tokio runtime, with which the proxy ends.
    pub async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (hang, hanging) = watch::channel(Hang::None);
        let commit = Arc::new(watch::Sender::new(Commit::Passes));
        let commits = Arc::clone(&commit);
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let (delay, delayed) = watch::channel(Duration::ZERO);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (target, hanging, commits) = (target.clone(), hanging.clone(), Arc::clone(&commits));
                let delay = *delayed.borrow();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    // A target that is down closes its client's connection.
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::join!(
                        pass(number, from_client, to_server, hanging.clone(), &commits),
                        pass(number, from_server, to_client, hanging, &commits),
                    );
                });
            }
        });
        Self { address, hang, commit, accepted, delay }
    }

    /// Makes new connections wait for this time before their first byte passes.
    pub fn delay_new(&self, time: Duration) {
        self.delay.send_replace(time);
    }

    /// Holds the answer to the next COMMIT of a change. All other bytes pass.
    pub fn hold_next_commit(&self) {
        self.commit.send_replace(Commit::Awaited);
    }

    pub async fn until_commit_is_held(&self) {
        let mut commit = self.commit.subscribe();
        let held = commit.wait_for(|commit| *commit == Commit::Held);
        tokio::time::timeout(Duration::from_secs(120), held).await.expect("no change is committed").unwrap();
    }

    pub fn release_commit(&self) {
        self.commit.send_replace(Commit::Passes);
    }

    /// Ends the connection of the COMMIT whose answer is held. All other bytes pass.
    pub fn cut_commit(&self) {
        self.commit.send_replace(Commit::Cut);
    }

    /// Lets nothing pass until [`Self::go_on`] or [`Self::go_on_with_new`].
    pub fn hang(&self) {
        self.hang.send_replace(Hang::All);
    }

    /// Hanging connections continue.
    pub fn go_on(&self) {
        self.hang.send_replace(Hang::None);
    }

    /// New connections work; existing ones hang permanently, as after a firewall dropped them.
    pub fn go_on_with_new(&self) {
        self.hang.send_replace(Hang::Before(self.accepted.load(Ordering::SeqCst)));
    }
}

async fn pass(
    number: usize,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut hanging: watch::Receiver<Hang>,
    commits: &watch::Sender<Commit>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(length) = from.read(&mut buffer).await else { return };
        let may_pass = |hang: &Hang| match hang {
            Hang::None => true,
            Hang::Before(first) => number >= *first,
            Hang::All => false,
        };
        if hanging.wait_for(may_pass).await.is_err() {
            return;
        }
        let holds = |text: &[u8]| buffer[..length].windows(text.len()).any(|part| part == text);
        let present = *commits.borrow();
        if present == Commit::Awaited && holds(CHANGES) {
            commits.send_replace(Commit::Changing(number));
        } else if present == Commit::Changing(number) && holds(COMMITTED) {
            commits.send_replace(Commit::Held);
            let decided = |commit: &Commit| matches!(commit, Commit::Passes | Commit::Cut);
            if !commits.subscribe().wait_for(decided).await.is_ok_and(|commit| *commit == Commit::Passes) {
                return;
            }
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
