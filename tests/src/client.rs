//! A small blocking HTTP/1.1 client: one request per connection, JSON bodies, server-sent events.
//!
//! Does no more than the tests and the demo need: no TLS, no redirects, no reuse. Dropping a
//! [`Stream`] closes the socket, which is what a client that goes away looks like.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

/// Nothing a test waits for takes longer than this without a byte.
const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    pub fn get(&self, path: &str) -> anyhow::Result<Response> {
        self.start("GET", path, &[], b"")?.collect()
    }

    pub fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> anyhow::Result<Response> {
        self.post_bytes(path, headers, body.to_string().as_bytes())
    }

    /// Sends a body that need not be JSON.
    pub fn post_bytes(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Response> {
        self.start("POST", path, headers, body)?.collect()
    }

    /// Sends a request and returns as soon as the response's head is there.
    pub fn stream(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> anyhow::Result<Stream> {
        self.start("POST", path, headers, body.to_string().as_bytes())
    }

    fn start(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Stream> {
        let socket = TcpStream::connect(self.address)
            .with_context(|| format!("cannot connect to {}", self.address))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        (&socket).write_all(&request).context("the server closed while we sent")?;
        Stream::read_head(BufReader::new(socket))
    }
}

/// A response whose body is still arriving.
#[derive(Debug)]
pub struct Stream {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    body: Body,
}

impl Stream {
    fn read_head(mut reader: BufReader<TcpStream>) -> anyhow::Result<Self> {
        let line = read_line(&mut reader)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .with_context(|| format!("no status line: {line:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header without a colon")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let header = |name: &str| headers.iter().find(|(known, _)| known == name);
        let framing = if header("transfer-encoding").is_some_and(|(_, v)| v == "chunked") {
            Framing::Chunked { left: 0, first: true }
        } else if let Some((_, length)) = header("content-length") {
            Framing::Length(length.parse().context("content-length")?)
        } else {
            Framing::UntilClose
        };
        Ok(Self { status, headers, body: Body { reader, framing } })
    }

    /// The data of the next server-sent event; `None` at the end of the stream. Comments are
    /// skipped.
    pub fn next_data(&mut self) -> anyhow::Result<Option<String>> {
        let mut data: Option<String> = None;
        loop {
            let Some(line) = self.body.line()? else {
                return Ok(data);
            };
            if line.is_empty() && data.is_some() {
                return Ok(data);
            }
            if let Some(part) = line.strip_prefix("data:") {
                let part = part.strip_prefix(' ').unwrap_or(part);
                match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(part);
                    }
                    None => data = Some(part.to_owned()),
                }
            }
        }
    }

    /// The next event as JSON; `None` at `[DONE]` or the end.
    pub fn next_json(&mut self) -> anyhow::Result<Option<Value>> {
        match self.next_data()? {
            None => Ok(None),
            Some(data) if data == "[DONE]" => Ok(None),
            Some(data) => {
                Ok(Some(serde_json::from_str(&data).with_context(|| format!("no JSON: {data}"))?))
            }
        }
    }

    /// Reads the rest of the body.
    pub fn collect(mut self) -> anyhow::Result<Response> {
        let mut body = Vec::new();
        self.body.read_to_end(&mut body).context("the response broke off")?;
        Ok(Response { status: self.status, headers: self.headers, body })
    }
}

#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked { left: u64, first: bool },
    UntilClose,
}

#[derive(Debug)]
struct Body {
    reader: BufReader<TcpStream>,
    framing: Framing,
}

impl Body {
    /// One line without its end, byte by byte as it arrives; `None` at the end of the body.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            if self.read(&mut byte)? == 0 {
                if line.is_empty() {
                    return Ok(None);
                }
                break;
            }
            if byte[0] == b'\n' {
                break;
            }
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).context("the stream is not UTF-8")?;
        Ok(Some(line.trim_end_matches('\r').to_owned()))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.framing {
            Framing::UntilClose => self.reader.read(buffer),
            Framing::Length(left) => read_counted(&mut self.reader, buffer, left),
            Framing::Chunked { left, first } => {
                if *left == 0 {
                    if !std::mem::take(first) {
                        read_line(&mut self.reader).map_err(io::Error::other)?;
                    }
                    let size = read_line(&mut self.reader).map_err(io::Error::other)?;
                    let size = size.split(';').next().unwrap_or_default().trim();
                    *left = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
                    if *left == 0 {
                        self.framing = Framing::Length(0);
                        return Ok(0);
                    }
                }
                read_counted(&mut self.reader, buffer, left)
            }
        }
    }
}

fn read_counted(
    reader: &mut BufReader<TcpStream>,
    buffer: &mut [u8],
    left: &mut u64,
) -> io::Result<usize> {
    if *left == 0 {
        return Ok(0);
    }
    let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    let count = reader.read(&mut buffer[..wanted])?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    *left -= count as u64;
    Ok(count)
}

fn read_line(reader: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        bail!("the server closed the connection");
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::Client;

    /// Answers one request with the given bytes and closes.
    fn answer(bytes: &'static str) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).unwrap();
            socket.write_all(bytes.as_bytes()).unwrap();
        });
        client
    }

    const STREAM: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        9\r\n: ping\n\nd\r\n8\r\nata: {\"a\r\n6\r\n\":1}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

    #[test]
    fn events_are_found_across_chunk_borders() {
        let mut stream = answer(STREAM).stream("/", &[], &serde_json::json!({})).unwrap();
        assert_eq!(stream.next_json().unwrap().unwrap()["a"], 1);
        assert!(stream.next_json().unwrap().is_none());
        assert!(stream.next_data().unwrap().is_none());
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error() {
        for bytes in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        ] {
            assert!(answer(bytes).get("/").is_err(), "{bytes}");
        }
    }
}
