//! The listening socket.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on an address. An unspecified address stands for all IPv4 and IPv6 addresses. `share_port` lets several
/// processes listen on the same port (SO_REUSEPORT).
///
/// # Errors
/// If the address is in use, or is not an address of this machine.
pub fn listen(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    if address.ip().is_unspecified() {
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
        match bound(any, share_port) {
            // The kernel may not support IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse && address.is_ipv4() => {}
            end => return end,
        }
    }
    bound(address, share_port)
}

fn bound(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Go sets this option for every listener, too.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(share_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
