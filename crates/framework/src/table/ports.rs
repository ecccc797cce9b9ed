//! Host ports in use on one node.

use harbormaster_api::pod::HostPort;

/// The address that stands for every address of the node.
const ANY_IP: &str = "0.0.0.0";

/// Multiset of host ports. A node uses few of them, so a short list is faster than a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedPorts(Vec<(HostPort, u32)>);

impl UsedPorts {
    /// Adds one use.
    pub fn add(&mut self, port: &HostPort) {
        match self.0.iter_mut().find(|(p, _)| p == port) {
            Some((_, uses)) => *uses += 1,
            None => self.0.push((port.clone(), 1)),
        }
    }

    /// Removes one use.
    pub fn remove(&mut self, port: &HostPort) {
        if let Some(at) = self.0.iter().position(|(p, _)| p == port) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.swap_remove(at);
            }
        }
    }

    /// Returns true if no port is used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if `requested` conflicts with a port in use. Two ports conflict if their protocols and numbers are
    /// the same, and their addresses are the same or one address is `0.0.0.0`. Other spellings of "any address", such
    /// as `::`, have no special meaning, as in kube-scheduler.
    pub fn conflicts(&self, requested: &HostPort) -> bool {
        self.0.iter().any(|(used, _)| {
            used.port == requested.port
                && used.protocol == requested.protocol
                && (used.ip == requested.ip || used.ip == ANY_IP || requested.ip == ANY_IP)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(protocol: &str, ip: &str, port: i32) -> HostPort {
        HostPort { ip: ip.into(), protocol: protocol.into(), port }
    }

    #[test]
    fn ports_conflict_if_their_numbers_and_protocols_and_addresses_match() {
        let mut used = UsedPorts::default();
        used.add(&port("TCP", "127.0.0.1", 80));
        assert!(used.conflicts(&port("TCP", "0.0.0.0", 80)));
        assert!(used.conflicts(&port("TCP", "127.0.0.1", 80)));
        assert!(!used.conflicts(&port("TCP", "127.0.0.2", 80)));
        assert!(!used.conflicts(&port("UDP", "127.0.0.1", 80)));
        used.add(&port("TCP", "127.0.0.1", 80));
        used.remove(&port("TCP", "127.0.0.1", 80));
        assert!(used.conflicts(&port("TCP", "127.0.0.1", 80)), "one of the two uses is left");
        used.remove(&port("TCP", "127.0.0.1", 80));
        assert!(used.is_empty());
    }
}
