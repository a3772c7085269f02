//! A TCP proxy that can hang: connections stay open, and new ones are accepted, but no byte passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Which connections hang.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hang {
    None,
    /// All that were made before the one of this number, for ever.
    Before(usize),
    All,
}

pub struct Proxy {
    pub address: SocketAddr,
    hang: watch::Sender<Hang>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// Must be called on a tokio runtime, with which the proxy ends.
    pub async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (hang, hanging) = watch::channel(Hang::None);
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (target, hanging) = (target.clone(), hanging.clone());
                tokio::spawn(async move {
                    // A target that is down closes its client's connection.
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::join!(
                        pass(number, from_client, to_server, hanging.clone()),
                        pass(number, from_server, to_client, hanging),
                    );
                });
            }
        });
        Self { address, hang, accepted }
    }

    /// Lets nothing pass until [`Self::go_on`] or [`Self::go_on_with_new`].
    pub fn hang(&self) {
        self.hang.send_replace(Hang::All);
    }

    /// What hung goes on where it was.
    pub fn go_on(&self) {
        self.hang.send_replace(Hang::None);
    }

    /// New connections work; those that were there hang for ever, as after a firewall forgot them.
    pub fn go_on_with_new(&self) {
        self.hang.send_replace(Hang::Before(self.accepted.load(Ordering::SeqCst)));
    }
}

async fn pass(number: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut hanging: watch::Receiver<Hang>) {
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
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
