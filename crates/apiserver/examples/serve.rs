//! Serves an empty cluster on loopback and prints a kubeconfig for it:
//! `cargo run -p harbormaster-apiserver --example serve -- [PORT] [--plain]`.

use harbormaster_apiserver::{ApiServer, Certificate, Options, kubeconfig_yaml};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let plain = arguments.iter().any(|argument| argument == "--plain");
    let port: u16 = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(0);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let certificate = if plain { None } else { Some(Certificate::self_signed(&[])?) };
    let running = ApiServer::new(Options::default()).serve(listener, certificate.as_ref())?;
    let authority = certificate.as_ref().map(Certificate::authority_pem);
    println!("{}", kubeconfig_yaml(running.address(), authority.as_deref(), None));
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}
