//! The status of an HTTP request on the loopback interface: the health endpoints of node services are plain HTTP, and only
//! their status matters.

#![allow(clippy::disallowed_methods)] // I/O, and time

use std::{io, time::Duration};

use http::Request;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kube::client::Body;
use tokio::{runtime::Builder, time::timeout};

/// How long a request may take, from connecting to the headers of the response.
const LIMIT: Duration = Duration::from_secs(1);

/// The status of `GET http://127.0.0.1:<port><path>`, without a proxy and without following redirects.
pub fn http_status(port: u16, path: &str) -> io::Result<u16> {
    let request =
        Request::get(format!("http://127.0.0.1:{port}{path}")).body(Body::empty()).map_err(io::Error::other)?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let response = runtime.block_on(async { timeout(LIMIT, client.request(request)).await })?;
    Ok(response.map_err(io::Error::other)?.status().as_u16())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, TcpListener},
        thread,
        time::Instant,
    };

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
