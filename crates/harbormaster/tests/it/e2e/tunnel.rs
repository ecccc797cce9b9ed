//! A TCP tunnel that can fall silent, like a firewall that has lost track of its connections: sockets stay open, but
//! written data is lost.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// A group of connections that fall silent together.
#[derive(Default)]
struct Age {
    swallows_requests: AtomicBool,
    swallows_answers: AtomicBool,
}

/// A tunnel to a port of this machine. It lasts until the process ends.
pub struct Tunnel {
    pub port: u16,
    age: Arc<Mutex<Arc<Age>>>,
}

impl Tunnel {
    /// Starts listening.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let age = Arc::<Mutex<Arc<Age>>>::default();
        let ages = Arc::clone(&age);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let age = Arc::clone(&ages.lock().unwrap_or_else(PoisonError::into_inner));
                // If the server cannot be reached, the client's connection is simply closed.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                    join(client, server, age).expect("sockets can be shared");
                }
            }
        });
        Self { port, age }
    }

    /// Drops everything that clients send from now on.
    pub fn swallow_requests(&self) {
        self.current().swallows_requests.store(true, Ordering::Relaxed);
    }

    /// Drops everything that servers send from now on.
    pub fn swallow_answers(&self) {
        self.current().swallows_answers.store(true, Ordering::Relaxed);
    }

    /// Drops everything on the present connections from now on. New connections work.
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

/// Forwards bytes until either side closes. The end of the stream can be swallowed too.
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
