//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use super::{Error, io_error};

/// Returns `N` different ports of 127.0.0.1 that were free a moment ago. Another process may take one of the ports
/// before the caller uses it; a caller that must not fail then tries again with new ports, as `ControlPlane::start`
/// does.
///
/// # Errors
/// If the operating system has no free port.
pub fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    // All listeners stay open until every port has been chosen, so that all ports differ.
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io_error("finding a free port"))?;
        *port = listener.local_addr().map_err(io_error("finding a free port"))?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_one_call_differ() {
        let mut ports = free_ports::<8>().unwrap();
        ports.sort_unstable();
        assert!(ports[0] > 0);
        assert!(ports.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
