//! The status of an HTTP request on the loopback interface.
//!
//! The health endpoints of node services are plain HTTP and only their status matters, so that a request and a status line
//! are all there is to it: no client library, no runtime, and a time limit for the whole of it.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// How long a request may take, from connecting to the status line.
const LIMIT: Duration = Duration::from_secs(1);
/// The length of `HTTP/1.1 200`, in bytes.
const STATUS_LINE: usize = 12;

/// The status of `GET http://127.0.0.1:<port><path>`.
///
/// # Errors
/// When there is no HTTP response within one second.
pub fn http_status(port: u16, path: &str) -> io::Result<u16> {
    let deadline = Instant::now() + LIMIT;
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), LIMIT)?;
    stream.set_write_timeout(Some(LIMIT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;

    let mut line = Vec::new();
    while line.len() < STATUS_LINE {
        stream.set_read_timeout(Some(remaining(deadline)?))?;
        let mut part = [0; STATUS_LINE];
        match stream.read(&mut part)? {
            0 => break,
            read => line.extend_from_slice(&part[..read]),
        }
    }
    status(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP"))
}

/// The time until the deadline, which is never zero: a timeout of zero is none.
fn remaining(deadline: Instant) -> io::Result<Duration> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(remaining) }
}

/// The status in the first line of a response, such as 200 in `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    let line = str::from_utf8(line.get(..STATUS_LINE)?).ok()?;
    line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' '))?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// The result of a request to a server that reads it, and sends these parts with a pause before each.
    fn answer(parts: Vec<(Duration, &'static str)>) -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            for (pause, part) in parts {
                thread::sleep(pause);
                let _ = stream.write_all(part.as_bytes());
            }
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let result = http_status(port, "/healthz");
        assert!(server.join().unwrap().starts_with("GET /healthz HTTP/1.1\r\n"));
        result
    }

    #[test]
    fn the_status_is_in_the_first_line_of_the_response() {
        const NOW: Duration = Duration::ZERO;
        for (parts, expected) in [
            (vec![(NOW, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")], Some(200)),
            (vec![(NOW, "HTTP/1.0 500 Internal Server Error\r\n\r\n")], Some(500)),
            (vec![(NOW, "HTTP/1.1 "), (Duration::from_millis(50), "503 Service Unavailable\r\n\r\n")], Some(503)),
            (vec![(NOW, "SSH-2.0-OpenSSH_9.2")], None),
            (vec![(NOW, "HTTP/1.1")], None),
            (vec![], None),
        ] {
            assert_eq!(answer(parts.clone()).ok(), expected, "{parts:?}");
        }
    }

    #[test]
    fn a_response_after_one_second_is_an_error() {
        let started = Instant::now();
        let slow = (0..6).map(|_| (Duration::from_millis(300), "H")).collect();
        let error = answer(slow).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_port_without_a_server_is_an_error() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(http_status(port, "/").is_err());
    }
}
