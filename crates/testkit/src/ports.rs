//! Ports for a later listener, or for listening at the same port again.

use std::fs;
use std::net::{IpAddr, TcpListener};

/// An unused port of an address. It is below the range of the kernel's ports for outgoing connections, one of which
/// might otherwise have it before it is listened at. `free_port` of the scripts does the same.
pub fn free_port(ip: impl Into<IpAddr>) -> u16 {
    let ip = ip.into();
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let low = range.split_whitespace().next().and_then(|low| low.parse().ok());
    let high = low.filter(|low| (22_001..32_000).contains(low)).unwrap_or(32_000);
    let is_free = |port: &u16| TcpListener::bind((ip, *port)).is_ok();
    let mut some = std::iter::repeat_with(|| fastrand::u16(high - 12_000..high)).take(200);
    some.find(is_free).unwrap_or_else(|| panic!("found no free port below {high}"))
}
