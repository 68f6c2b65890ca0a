//! Requests: the token, and the parts of the target.

use hyper::Request;
use hyper::header::COOKIE;

/// Returns whether the target or the cookie named `cookie` contains the token.
pub(super) fn has_token<B>(request: &Request<B>, cookie: &str, token: &str) -> bool {
    let cookies = request.headers().get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
    let cookies = cookies.flat_map(|it| it.split(';')).map(str::trim);
    let of_cookie = cookies.filter_map(|part| part.strip_prefix(cookie)?.strip_prefix('='));
    let query = request.uri().query().unwrap_or_default().split('&');
    let of_query = query.filter_map(|part| part.strip_prefix("token="));
    of_query.chain(of_cookie).any(|given| is_same(given, token))
}

/// Compares two texts in constant time, independent of the position where they differ.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    given.len() == token.len() && differences == 0
}

/// Returns the decoded values of a field of the query, in order. Browsers send a space as `+`.
pub(super) fn values(query: &str, name: &str) -> Option<Vec<String>> {
    let parts = query.split('&').filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    parts.map(|value| decoded(&value.replace('+', " "))).collect()
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

    fn has(target: &str, cookie: &str) -> bool {
        let request = Request::get(target).header(COOKIE, cookie).body(()).unwrap();
        has_token(&request, "cubeyard-4000", "abc")
    }

    #[test]
    fn the_token_is_in_the_address_or_in_a_cookie() {
        assert!(has("/?token=abc", ""));
        assert!(has("/files/a?x=1&token=abc#b", ""));
        assert!(has("/", "a=b; cubeyard-4000=abc"));
        for wrong in ["ab", "abcd", "abd", "", "token=abc"] {
            assert!(!has(&format!("/?token={wrong}"), ""), "{wrong}");
            assert!(!has("/", &format!("cubeyard-4000={wrong}")), "{wrong}");
        }
        assert!(!has("/?untoken=abc", "cubeyard-400=abc"));
        assert!(!has("/token=abc", ""));
    }

    #[test]
    fn values_of_a_query_are_decoded() {
        let query = "run=a+b%2Bc.json%3A2&other=1&run=%C3%BC";
        assert_eq!(values(query, "run").unwrap(), ["a b+c.json:2", "ü"]);
        assert!(values("", "run").unwrap().is_empty());
        assert_eq!(values("run=%ff", "run"), None);
    }
}
