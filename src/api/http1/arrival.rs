//! The kernel's data about a stream: the age of its received bytes, and the amount of unread answers.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Duration;
use tokio_rustls::server::TlsStream;

/// A connection's bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// The time since the last received bytes arrived, if known. Bytes that were read with them may have arrived
    /// earlier. Costs a system call.
    fn since_last_arrival(&self) -> Option<Duration>;

    /// The kernel's memory of written bytes that the client has not read; 0 if unknown. Costs a system call.
    fn queued(&self) -> usize;
}

impl Stream for TcpStream {
    #[cfg(target_os = "linux")]
    fn since_last_arrival(&self) -> Option<Duration> {
        let info = nix::sys::socket::getsockopt(self, kernel::TcpInfo).ok()?;
        info.last().map(|since_ms| Duration::from_millis((*since_ms).into()))
    }

    #[cfg(target_os = "linux")]
    fn queued(&self) -> usize {
        let words = nix::sys::socket::getsockopt(self, kernel::MemoryInfo).ok();
        words.and_then(|words| words.last().copied()).unwrap_or_default() as usize
    }

    #[cfg(not(target_os = "linux"))]
    fn queued(&self) -> usize {
        0
    }

    #[cfg(not(target_os = "linux"))]
    fn since_last_arrival(&self) -> Option<Duration> {
        None
    }
}

impl Stream for TlsStream<TcpStream> {
    fn since_last_arrival(&self) -> Option<Duration> {
        self.get_ref().0.since_last_arrival()
    }

    fn queued(&self) -> usize {
        self.get_ref().0.queued()
    }
}

impl Stream for UnixStream {
    fn since_last_arrival(&self) -> Option<Duration> {
        None
    }

    fn queued(&self) -> usize {
        0
    }
}

impl Stream for DuplexStream {
    fn since_last_arrival(&self) -> Option<Duration> {
        None
    }

    fn queued(&self) -> usize {
        0
    }
}

/// Linux's data about a connection: tcp(7).
#[cfg(target_os = "linux")]
mod kernel {
    use std::mem::{offset_of, size_of};

    use nix::libc;
    use nix::sys::socket::sockopt::GetStruct;

    /// The part that all kernels return, up to `tcpi_last_data_recv`. The length of the structure depends on the C
    /// library, and the filled part on the kernel's age. nix panics if the kernel returns less than requested.
    type Words = [u32; offset_of!(libc::tcp_info, tcpi_last_data_recv) / size_of::<u32>() + 1];

    #[derive(Debug, Clone, Copy)]
    pub struct TcpInfo;

    // nix has no name for the option.
    nix::getsockopt_impl!(TcpInfo, libc::IPPROTO_TCP, libc::TCP_INFO, Words, GetStruct<Words>);

    /// Up to `SK_MEMINFO_WMEM_QUEUED`: socket(7), sock_diag(7). Since Linux 4.12.
    type MemoryWords = [u32; libc::SK_MEMINFO_WMEM_QUEUED as usize + 1];

    #[derive(Debug, Clone, Copy)]
    pub struct MemoryInfo;

    nix::getsockopt_impl!(MemoryInfo, libc::SOL_SOCKET, libc::SO_MEMINFO, MemoryWords, GetStruct<MemoryWords>);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Holds with any C library and any kernel age: Linux has returned this part since version 2.4.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_fields_of_every_kernel_are_read() {
        use nix::sys::socket::GetSockOpt;
        assert_eq!(size_of::<<kernel::TcpInfo as GetSockOpt>::Val>(), 56);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_reports_unsent_bytes_of_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        assert_eq!(near.queued(), 0);
        near.writable().await.unwrap();
        let mut written = 0;
        while let Ok(bytes) = near.try_write(&[0; 64 << 10]) {
            written += bytes;
        }
        assert!(near.queued() >= 64 << 10, "{} of {written}", near.queued());
        let mut rest = vec![0; written];
        far.read_exact(&mut rest).await.unwrap();
        while near.queued() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// The kernel counts from the arrival of bytes, whether or not they were read.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_reports_how_long_bytes_have_waited() {
        const WAIT: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            near.write_all(b"x").await.unwrap();
            far.readable().await.unwrap();
            while far.since_last_arrival().unwrap() < WAIT {
                tokio::task::yield_now().await;
            }
            // It counts in ticks of up to 10 ms.
            assert!(began.elapsed() > WAIT / 2, "{:?}", began.elapsed());
            far.read_exact(&mut byte).await.unwrap();
            assert!(far.since_last_arrival().unwrap() >= WAIT);
        }
    }
}
