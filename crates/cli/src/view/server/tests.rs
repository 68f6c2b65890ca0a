//! Access to the server, without a connection.

use std::fs;

use hyper::header::COOKIE;

use super::*;

const OWN: &str = "127.0.0.1:4000";
const COOKIES: &str = "cubeyard-4000=abc";

fn server() -> Server {
    let name = format!("cubeyard-server-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(folder.join("a b")).unwrap();
    fs::write(folder.join("a b/ü.html"), "<p>").unwrap();
    let served = Served::find(&folder).unwrap();
    Server { served, perfetto: None, port: 4000, token: "abc".to_owned() }
}

fn request(method: Method, target: &str, host: &str, cookies: &str) -> Request<()> {
    let request = Request::builder().method(method).uri(target);
    request.header(HOST, host).header(COOKIE, cookies).body(()).unwrap()
}

fn status(method: Method, target: &str, host: &str) -> u16 {
    server().answer(&request(method, target, host, COOKIES)).status.as_u16()
}

#[test]
fn only_listed_files_are_served_and_only_to_this_machine() {
    let get = |target, host| status(Method::GET, target, host);
    assert_eq!(get("/", OWN), 200);
    assert_eq!(get("/", "localhost:4000"), 200);
    assert_eq!(get("/files/a%20b/%C3%BC.html?x=1", OWN), 200);
    for path in [
        "/files/../Cargo.toml",
        "/files/a%20b/../%C3%BC.html",
        "/etc/passwd",
        "/files/",
        "/show/",
        "/show/a%20b/%C3%BC.html",
        "/perfetto/",
    ] {
        assert_eq!(get(path, OWN), 404, "{path}");
    }
    for host in ["example.org", "127.0.0.1", "127.0.0.1:4001", ""] {
        assert_eq!(get("/", host), 403, "{host}");
    }
    assert_eq!(status(Method::POST, "/", OWN), 405);
    for target in ["/%zz", "/%", "/%ff", "/compare?run=%ff&run=a"] {
        assert_eq!(get(target, OWN), 400, "{target}");
    }
}

/// Any user of the machine could read what was served.
#[test]
fn nothing_is_served_without_the_token() {
    for (target, cookies, expected) in [
        ("/", "", 403),
        ("/compare", "", 403),
        ("/files/a%20b/%C3%BC.html", "cubeyard-4000=abd", 403),
        ("/?token=ab", "", 403),
        ("/?token=abc", "", 200),
        ("/", COOKIES, 200),
    ] {
        let response = server().respond(&request(Method::GET, target, OWN, cookies));
        assert_eq!(response.status().as_u16(), expected, "{target} {cookies}");
        let cookie = response.headers().get(header::SET_COOKIE);
        let gives = cookie.is_some_and(|it| it.to_str().unwrap().starts_with("cubeyard-4000=abc;"));
        assert_eq!(gives, expected == 200, "the token is told to those who know it");
    }
}
