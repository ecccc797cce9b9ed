use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use zip::write::SimpleFileOptions;

use super::super::go_build::{ModFiles, Versions};
use super::*;

#[test]
fn refused_versions_are_read_from_the_output_of_go() {
    let printed = "go: k8s.io/kubernetes@v1.36.99: reading http://proxy/k8s.io/kubernetes/@v/v1.36.99.mod: 403 Forbidden\n\
        \tserver response: This module version is not available.\n\
        /root/go/pkg/mod/github.com/golang/protobuf@v1.5.4/proto/buffer.go:11:2: golang.org/x/net@v0.8.0: reading http://proxy/x.zip: 403 Forbidden\n\
        a.go:1:2: golang.org/x/net@v0.8.0: reading http://proxy/x.zip: 403 Forbidden\n\
        go: k8s.io/api@v0.0.0 (replaced by k8s.io/api@v0.36.99): reading http://proxy/y.mod: 404 Not Found\n\
        verifying example.com/evil@v1.0.0: checksum mismatch\n";
    let expected =
        [("golang.org/x/net", "v0.8.0"), ("k8s.io/api", "v0.36.99"), ("k8s.io/kubernetes", "v1.36.99")];
    assert_eq!(refused(printed), expected.map(|(module, version)| (module.to_owned(), version.to_owned())));
}

/// A local module proxy that serves some versions and only lists others.
struct Proxy {
    address: String,
}

impl Proxy {
    /// Starts a proxy for modules, each given by its name, its version, and whether that version is served.
    fn serving(modules: &[(&str, &str, bool)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut files: HashMap<String, Vec<u8>> = HashMap::new();
        for (module, version, served) in modules {
            files.entry(format!("/{module}/@v/list")).or_default().extend(format!("{version}\n").bytes());
            if !served {
                continue;
            }
            let at = format!("/{module}/@v/{version}");
            let go_mod = format!("module {module}\n\ngo 1.21\n");
            files.insert(format!("{at}.info"), format!("{{\"Version\":\"{version}\"}}").into());
            files.insert(format!("{at}.zip"), zipped(module, version, &go_mod));
            files.insert(format!("{at}.mod"), go_mod.into());
        }
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                answer(connection, &files);
            }
        });
        Self { address }
    }
}

fn zipped(module: &str, version: &str, go_mod: &str) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let source = format!("package dep\n\nconst Version = {version:?}\n");
    for (name, content) in [("go.mod", go_mod), ("dep.go", source.as_str())] {
        zip.start_file(format!("{module}@{version}/{name}"), stored).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn answer(mut connection: TcpStream, files: &HashMap<String, Vec<u8>>) {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let (status, body) = match files.get(&path) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("403 Forbidden", b"module version is not available".as_slice()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The client may have disconnected.
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
}

/// Versions that are not those in `go.mod`.
const OTHER: Versions = Versions { go_mod: "other.mod", tag: "other" };

/// Builds a program with version `pinned` of `k8s.io/dep`. Returns the version of the substitute, the description, and
/// the program's output.
fn built_with(
    versions: Versions,
    pinned: &str,
    modules: &[(&str, &str, bool)],
) -> Result<Option<[String; 3]>, Error> {
    let proxy = Proxy::serving(modules);
    let places = tempfile::tempdir().unwrap();
    let sources = places.path().join("sources");
    fs::create_dir(&sources).unwrap();
    let go_mod = format!("module program\n\ngo 1.21\n\nrequire (\n\tk8s.io/dep {pinned}\n)\n");
    let main = "package main\n\nimport \"k8s.io/dep\"\n\nfunc main() { println(dep.Version) }\n";
    fs::write(sources.join("go.mod"), "module program\n\ngo 1.21\n").unwrap();
    fs::write(sources.join(versions.go_mod), &go_mod).unwrap();
    let condition =
        if versions.tag.is_empty() { String::new() } else { format!("//go:build {}\n\n", versions.tag) };
    fs::write(sources.join("main.go"), condition + main).unwrap();
    let cache = places.path().join("cache").display().to_string();
    let go = Go::new(&sources, versions)
        .with("GOPROXY", &proxy.address)
        .with("GONOSUMDB", "*")
        .with("GOFLAGS", "-modcacherw")
        .with("GOMODCACHE", cache);
    let Some(substitute) = Substitute::find(&go, &places.path().join("copy"), "k8s.io/dep")? else {
        return Ok(None);
    };
    assert_eq!(fs::read_to_string(go.go_mod()).unwrap(), go_mod, "the original does not change");
    let program = places.path().join("program");
    substitute.go().build(".", &program, "v1", ModFiles::Writable)?;
    let printed = Command::new(program).output().unwrap().stderr;
    let printed = String::from_utf8(printed).unwrap().trim().to_owned();
    Ok(Some([substitute.version()?, substitute.description(), printed]))
}

#[test]
fn the_nearest_version_that_is_served_replaces_one_that_is_not() {
    let modules = [
        ("k8s.io/dep", "v1.35.9", true),
        ("k8s.io/dep", "v1.36.1", true),
        ("k8s.io/dep", "v1.36.3", true),
        // Listed, but refused.
        ("k8s.io/dep", "v1.36.4", false),
        ("k8s.io/dep", "v1.36.7", false),
    ];
    for (versions, pinned) in [(Versions::MAIN, "v1.36.99"), (Versions::MAIN, "v1.36.4"), (OTHER, "v1.36.99")]
    {
        let built = built_with(versions, pinned, &modules).unwrap().unwrap();
        assert_eq!(built, ["v1.36.3", &format!("k8s.io/dep v1.36.3 for {pinned}"), "v1.36.3"]);
    }
}

#[test]
fn a_version_that_is_served_is_not_replaced() {
    assert_eq!(built_with(Versions::MAIN, "v1.36.1", &[("k8s.io/dep", "v1.36.1", true)]).unwrap(), None);
}

#[test]
fn if_no_version_fits_the_error_names_the_wanted_version_and_the_served_versions() {
    let modules = [("k8s.io/dep", "v1.35.9", true), ("k8s.io/dep", "v1.37.0", true)];
    let error = built_with(Versions::MAIN, "v1.36.99", &modules).unwrap_err().to_string();
    assert!(error.contains("serves neither k8s.io/dep v1.36.99"), "{error}");
    assert!(error.contains("it serves v1.35.9, v1.37.0"), "{error}");
}
