//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use super::{Error, io_error};

/// `N` different ports of 127.0.0.1 that were free a moment ago. Another
/// process may take one before it is used: the user retries with new ones.
///
/// # Errors
/// When the operating system has none.
pub fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    // All listeners stay open until the end, so that no port comes twice.
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io_error("looking for a free port"))?;
        *port = listener.local_addr().map_err(io_error("looking for a free port"))?.port();
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
