//! Requests: the target, the requested host, and the token.

use std::io::{self, BufRead as _, BufReader, Read};

/// Maximum length of a request, in bytes.
const LONGEST: u64 = 16 << 10;

/// Parts of a request that the server reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// First line: method, target and version.
    pub(super) line: String,
    /// Host that the client requested.
    pub(super) host: String,
    /// Cookies, as sent.
    pub(super) cookies: String,
}

impl Request {
    /// Reads a request up to its body; no supported request has a body.
    pub(super) fn read(stream: impl Read) -> io::Result<Self> {
        let mut lines = BufReader::new(stream.take(LONGEST)).lines();
        let line = lines.next().transpose()?.unwrap_or_default();
        let mut request = Self { line, ..Self::default() };
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "host" => value.trim().clone_into(&mut request.host),
                "cookie" => value.trim().clone_into(&mut request.cookies),
                _ => {}
            }
        }
        Ok(request)
    }

    /// Returns the method and the target; `None` if the first line is malformed.
    pub(super) fn target(&self) -> Option<(&str, &str)> {
        let mut words = self.line.split(' ');
        let found = (words.next()?, words.next()?);
        words.next()?;
        words.next().is_none().then_some(found)
    }

    /// Returns whether the target or the cookie named `cookie` contains the token.
    pub(super) fn has_token(&self, cookie: &str, token: &str) -> bool {
        let query =
            self.target().and_then(|(_, target)| target.split_once('?')).map_or("", |it| it.1);
        let query = query.split('#').next().unwrap_or_default().split('&');
        let cookies = self.cookies.split(';').map(str::trim);
        let of_query = query.filter_map(|part| part.strip_prefix("token="));
        let of_cookie = cookies.filter_map(|part| part.strip_prefix(cookie)?.strip_prefix('='));
        of_query.chain(of_cookie).any(|given| is_same(given, token))
    }
}

/// Compares two texts in constant time, independent of the position where they differ.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    given.len() == token.len() && differences == 0
}

/// Decodes percent-encoding, as in `%20`; `None` if the result is not UTF-8.
pub(super) fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Request {
        Request::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_token_is_in_the_address_or_in_a_cookie() {
        let has = |text: &str| read(text).has_token("cubeyard-4000", "abc");
        assert!(has("GET /?token=abc HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(has("GET /files/a?x=1&token=abc#b HTTP/1.1\r\n\r\n"));
        assert!(has("GET / HTTP/1.1\r\ncookie: a=b; cubeyard-4000=abc\r\n\r\n"));
        for wrong in ["ab", "abcd", "abd", "", "token=abc"] {
            assert!(!has(&format!("GET /?token={wrong} HTTP/1.1\r\n\r\n")), "{wrong}");
            assert!(!has(&format!("GET / HTTP/1.1\r\nCookie: cubeyard-4000={wrong}\r\n\r\n")));
        }
        assert!(!has("GET /?untoken=abc HTTP/1.1\r\nCookie: cubeyard-400=abc\r\n\r\n"));
        assert!(!has("GET /token=abc HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn a_request_ends_at_the_limit() {
        let endless = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "X: y\r\n".repeat(1 << 20));
        assert_eq!(read(&endless).host, "a");
        assert_eq!(read(&"x".repeat(1 << 20)).line.len() as u64, LONGEST);
    }
}
