//! The socket that is listened on.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket};

use crate::options::Serving;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Begins to listen. An unspecified address stands for all addresses of both families.
pub(crate) fn listen(serving: &Serving) -> io::Result<TcpListener> {
    let port = serving.port;
    if serving.bind_address.is_unspecified() {
        match bound(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port), serving) {
            // A kernel without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse && serving.bind_address.is_ipv4() => {}
            end => return end,
        }
    }
    bound(SocketAddr::new(serving.bind_address, port), serving)
}

fn bound(address: SocketAddr, serving: &Serving) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As Go does for every listener, so `--permit-address-sharing` changes nothing.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(serving.share_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
