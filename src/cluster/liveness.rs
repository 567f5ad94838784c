//! Watches on a connection that only this side believes in: its packets are lost, and nothing says so.
//!
//! TCP alone does not find it where something between answers for the other side (a load balancer, a proxy). So the API
//! server is asked to end every watch after [`WATCH`], and a watch over which nothing came for [`SILENCE`], neither an
//! event, a bookmark nor its end, is closed here and opened again.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;

use super::{
    client::wrapped,
    pressure::{NoAnswer, is_watch},
};
use crate::admin::Metrics;

/// For how long a watch is asked, in seconds.
pub const WATCH: u32 = 20;
/// How long nothing may come over a watch: as long as it is asked for, and a little.
const SILENCE: Duration = Duration::from_secs(24);

/// Nothing came over a watch.
#[derive(Debug, thiserror::Error)]
#[error("nothing came from the API server for {SILENCE:?}: the connection is taken for dead")]
struct Silent;

/// The same client for the watch of one kind: it finds out when the connection is dead, and shows in the metrics when
/// something came last.
pub fn watched(client: Client, kind: &'static str, metrics: Metrics) -> Client {
    wrapped(client, |client| Watched { client, signs: Signs { kind, metrics } })
}

#[derive(Clone)]
struct Watched {
    client: Client,
    signs: Signs,
}

/// Shows signs of life of one watch in the metrics.
#[derive(Clone)]
struct Signs {
    kind: &'static str,
    metrics: Metrics,
}

impl Signs {
    fn alive(&self) {
        self.metrics.watch_activity(self.kind, Timestamp::now().as_second());
    }

    fn dead(&self) {
        self.metrics.watch_stall(self.kind);
    }
}

impl Service<Request<Body>> for Watched {
    type Response = Response<Alive>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Alive>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, signs } = self.clone();
        let watches = is_watch(&request);
        async move {
            if !watches {
                return Ok(client.send(request).await?.map(Alive::unlimited));
            }
            let answer = client.send(request).await;
            let response = answer.inspect_err(|error| {
                if NoAnswer::is(error) {
                    signs.dead();
                }
            })?;
            signs.alive();
            Ok(response.map(|body| Alive::limited(body, signs)))
        }
        .boxed()
    }
}

/// A body that ends with an error when nothing comes for too long.
struct Alive {
    body: Body,
    /// When the wait is over; only for a watch.
    limit: Option<(Pin<Box<Sleep>>, Signs)>,
    ended: bool,
}

impl Alive {
    fn unlimited(body: Body) -> Self {
        Self { body, limit: None, ended: false }
    }

    fn limited(body: Body, signs: Signs) -> Self {
        Self { body, limit: Some((Box::pin(sleep(SILENCE)), signs)), ended: false }
    }
}

impl HttpBody for Alive {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some((limit, signs)) = &mut self.limit else { return frame };
        if frame.is_ready() {
            signs.alive();
            limit.as_mut().reset(Instant::now() + SILENCE);
            return frame;
        }
        ready!(limit.as_mut().poll(context));
        signs.dead();
        self.ended = true;
        Poll::Ready(Some(Err(kube::Error::Service(Box::new(Silent)))))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, Stream, StreamExt};
    use http_body::SizeHint;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::client::limited;

    /// A body of chunks, each after so many seconds; then nothing, for ever.
    struct Chunks(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

    impl HttpBody for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_next_unpin(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::default()
        }
    }

    fn server(begins_after: u64, chunks: &'static [u64]) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            sleep(Duration::from_secs(begins_after)).await;
            let chunks = stream::iter(chunks).then(|after| async move {
                sleep(Duration::from_secs(*after)).await;
                Bytes::from_static(b"{}\n")
            });
            Ok::<_, Infallible>(Response::new(Chunks(chunks.chain(stream::pending()).boxed())))
        });
        Client::new(service, "default")
    }

    /// How long it is until the watch, or the list, is given up; how many chunks came; how many dead watches are counted.
    async fn given_up(client: Client, query: &str) -> (u64, usize, bool) {
        let metrics = Metrics::default();
        let client = watched(limited(client, &metrics), "Node", metrics.clone());
        let begin = Instant::now();
        let request = Request::get(format!("/api/v1/nodes?{query}")).body(Body::empty()).unwrap();
        let mut chunks = 0;
        let limit = Duration::from_secs(1000);
        let read = async {
            let Ok(response) = client.send(request).await else { return };
            let mut body = response.into_body();
            while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                chunks += 1;
            }
        };
        let _ = timeout(limit, read).await;
        let text = metrics.text();
        let active = text.contains("winpool_watch_last_activity_timestamp_seconds{kind=\"Node\"}");
        assert_eq!(active, query.contains("watch=true") && begin.elapsed().as_secs() > 15);
        (begin.elapsed().as_secs(), chunks, text.contains("winpool_watch_stalls_total{kind=\"Node\"} 1"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_given_up_when_nothing_comes_for_too_long_and_a_list_is_not() {
        for (begins_after, chunks, query, expected) in [
            (0, &[][..], "watch=true", (24, 0, true)),
            (0, &[20, 20, 20], "allowWatchBookmarks=true&watch=true", (84, 3, true)),
            (0, &[20, 30], "watch=true&resourceVersion=7", (44, 1, true)),
            (14, &[], "watch=true", (38, 0, true)),
            (16, &[], "watch=true", (15, 0, true)),
            (16, &[30], "limit=500", (1000, 1, false)),
        ] {
            assert_eq!(
                given_up(server(begins_after, chunks), query).await,
                expected,
                "{begins_after} {chunks:?} {query}"
            );
        }
    }
}
