//! Who may speak to the server at all: rules against web pages that reach for a local port.
//!
//! A page can make a browser send requests anywhere. `Host` must be a name of this machine (a
//! rebound DNS name is not) and an `Origin` must be too. That a body is declared as JSON is checked
//! where bodies are read.

use std::net::IpAddr;

use dynd_protocol::ApiError;
use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN};

/// Names under which this server may be addressed, beside loopback ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(crate) fn new(names: &[String]) -> Self {
        AllowedHosts(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Checks a request's headers. `local` is the address the connection came in on.
    pub(crate) fn check(&self, headers: &HeaderMap, local: Option<IpAddr>) -> Result<(), ApiError> {
        let host = text(headers, &HOST).unwrap_or_default();
        if !self.allows(host_of(host), local) {
            return Err(ApiError::forbidden(
                "The Host header names neither a loopback address nor a configured host. Use \
                 localhost, or add the name to server.allowed_hosts.",
            ));
        }
        if headers.contains_key(ORIGIN) {
            let origin = text(headers, &ORIGIN).unwrap_or_default();
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            if !authority.is_some_and(|authority| self.allows(host_of(authority), local)) {
                return Err(ApiError::forbidden(
                    "Requests from web pages of other origins are not accepted.",
                ));
            }
        }
        Ok(())
    }

    fn allows(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = host.to_ascii_lowercase();
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            if address.is_loopback() || local.map(|local| local.to_canonical()) == Some(address) {
                return true;
            }
        }
        host == "localhost" || host.ends_with(".localhost") || self.0.contains(&host)
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The host of `host[:port]`, without the brackets of an IPv6 address.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)]) -> Result<(), u16> {
        let map = headers
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().expect("a name");
                (name, value.parse().expect("a value"))
            })
            .collect();
        AllowedHosts::new(&["GPU-1.lan".to_owned()])
            .check(&map, Some(IpAddr::from([192, 168, 1, 5])))
            .map_err(|error| error.status)
    }

    #[test]
    fn hosts_of_this_machine_pass_and_others_do_not() {
        for host in [
            "localhost",
            "localhost:8484",
            "127.0.0.1:8484",
            "127.9.9.9",
            "[::1]:8484",
            "[::1]",
            "LOCALHOST",
            "a.localhost:1",
            "gpu-1.LAN:8484",
            "192.168.1.5:8484",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(check(&[("host", host)]), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "192.168.1.6", "", "8.8.8.8", "[", "0"]
        {
            assert_eq!(check(&[("host", host)]), Err(403), "{host}");
        }
        assert_eq!(check(&[]), Err(403));
    }

    #[test]
    fn foreign_origins_are_refused() {
        let with = |origin| check(&[("host", "localhost"), ("origin", origin)]);
        assert_eq!(with("http://localhost:3000"), Ok(()));
        assert_eq!(with("https://gpu-1.lan"), Ok(()));
        for origin in ["https://evil.example", "null", "", "http://localhost.evil.example"] {
            assert_eq!(with(origin), Err(403), "{origin}");
        }
    }
}
