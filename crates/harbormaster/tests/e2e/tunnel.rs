//! A tunnel for bytes that can fall silent, as a firewall does that has forgotten its connections: sockets stay open,
//! and what is written into them is gone.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Connections that fall silent together.
#[derive(Default)]
struct Age {
    swallows_requests: AtomicBool,
    swallows_answers: AtomicBool,
}

/// A tunnel to a port of this machine; it is there until the process ends.
pub struct Tunnel {
    pub port: u16,
    age: Arc<Mutex<Arc<Age>>>,
}

impl Tunnel {
    /// Listens.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let age = Arc::<Mutex<Arc<Age>>>::default();
        let ages = Arc::clone(&age);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let age = Arc::clone(&ages.lock().unwrap_or_else(PoisonError::into_inner));
                // A client that finds nobody sees its connection end.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                    join(client, server, age).expect("sockets can be shared");
                }
            }
        });
        Self { port, age }
    }

    /// What clients say is lost from now on.
    pub fn swallow_requests(&self) {
        self.current().swallows_requests.store(true, Ordering::Relaxed);
    }

    /// What servers say is lost from now on.
    pub fn swallow_answers(&self) {
        self.current().swallows_answers.store(true, Ordering::Relaxed);
    }

    /// Everything is lost from now on, but for what comes over new connections.
    pub fn fall_silent(&self) {
        let mut current = self.age.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::take(&mut *current);
        old.swallows_answers.store(true, Ordering::Relaxed);
        old.swallows_requests.store(true, Ordering::Relaxed);
    }

    fn current(&self) -> Arc<Age> {
        Arc::clone(&self.age.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn join(client: TcpStream, server: TcpStream, age: Arc<Age>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_too, server_too, age_too) = (client.try_clone()?, server.try_clone()?, Arc::clone(&age));
    thread::spawn(move || pump(client, server, &age.swallows_requests));
    thread::spawn(move || pump(server_too, client_too, &age_too.swallows_answers));
    Ok(())
}

/// Passes bytes on until either side ends; its end is one more thing that can be swallowed.
fn pump(mut from: TcpStream, mut to: TcpStream, swallows: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !swallows.load(Ordering::Relaxed) && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    if !swallows.load(Ordering::Relaxed) {
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
