use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use zip::write::SimpleFileOptions;

use super::super::go_build::ModFiles;
use super::*;

#[test]
fn versions_that_are_refused_are_read_from_what_go_prints() {
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

/// A module proxy on this machine: serves some versions, lists others besides.
struct Proxy {
    address: String,
}

impl Proxy {
    /// `modules` with their versions and whether these are served.
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
    // The client may have gone.
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
}

/// What stands in for what in a program of version `pinned` of `k8s.io/dep`,
/// and what the program then prints.
fn built_with(pinned: &str, modules: &[(&str, &str, bool)]) -> Result<Option<[String; 3]>, Error> {
    let proxy = Proxy::serving(modules);
    let places = tempfile::tempdir().unwrap();
    let sources = places.path().join("sources");
    fs::create_dir(&sources).unwrap();
    let go_mod = format!("module program\n\ngo 1.21\n\nrequire (\n\tk8s.io/dep {pinned}\n)\n");
    let main = "package main\n\nimport \"k8s.io/dep\"\n\nfunc main() { println(dep.Version) }\n";
    fs::write(sources.join("go.mod"), &go_mod).unwrap();
    fs::write(sources.join("main.go"), main).unwrap();
    let cache = places.path().join("cache").display().to_string();
    let go = Go::in_directory(&sources)
        .with("GOPROXY", &proxy.address)
        .with("GONOSUMDB", "*")
        .with("GOFLAGS", "-modcacherw")
        .with("GOMODCACHE", cache);
    let Some(substitute) = Substitute::find(&go, &places.path().join("copy"), "k8s.io/dep")? else {
        return Ok(None);
    };
    assert_eq!(fs::read_to_string(sources.join("go.mod")).unwrap(), go_mod, "the original stays as it is");
    let program = places.path().join("program");
    substitute.go().build(".", &program, "v1", ModFiles::Updated)?;
    let printed = Command::new(program).output().unwrap().stderr;
    let printed = String::from_utf8(printed).unwrap().trim().to_owned();
    Ok(Some([substitute.version()?, substitute.description(), printed]))
}

#[test]
fn the_nearest_version_that_is_served_stands_in_for_one_that_is_not() {
    let modules = [
        ("k8s.io/dep", "v1.35.9", true),
        ("k8s.io/dep", "v1.36.1", true),
        ("k8s.io/dep", "v1.36.3", true),
        // Listed, but refused.
        ("k8s.io/dep", "v1.36.4", false),
        ("k8s.io/dep", "v1.36.7", false),
    ];
    for pinned in ["v1.36.99", "v1.36.4"] {
        let built = built_with(pinned, &modules).unwrap().unwrap();
        assert_eq!(built, ["v1.36.3", &format!("k8s.io/dep v1.36.3 for {pinned}"), "v1.36.3"]);
    }
}

#[test]
fn nothing_stands_in_for_what_is_served() {
    assert_eq!(built_with("v1.36.1", &[("k8s.io/dep", "v1.36.1", true)]).unwrap(), None);
}

#[test]
fn when_no_version_fits_the_error_names_module_version_and_what_is_served() {
    let modules = [("k8s.io/dep", "v1.35.9", true), ("k8s.io/dep", "v1.37.0", true)];
    let error = built_with("v1.36.99", &modules).unwrap_err().to_string();
    assert!(error.contains("k8s.io/dep v1.36.99 is not served"), "{error}");
    assert!(error.contains("served are v1.35.9, v1.37.0"), "{error}");
}
