//! Detects stalled watches, whose connection is half-open and receives no data.
//!
//! TCP keep-alive does not detect these if a load balancer or proxy answers for the API server. Therefore each watch
//! request has a timeout of [`WATCH_TIMEOUT_SECONDS`], after which the API server ends it. A watch that received
//! nothing for [`STALL_TIMEOUT`] (no event, no bookmark, no end) is closed here and started again.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::time::{Instant, Sleep, sleep};

use super::{
    client::wrapped,
    is,
    time_limits::{ResponseTimeout, is_watch},
};
use crate::admin::Metrics;

/// The time after which the API server ends a watch, in seconds.
pub const WATCH_TIMEOUT_SECONDS: u32 = 20;
/// How long a watch may receive nothing: slightly longer than [`WATCH_TIMEOUT_SECONDS`].
const STALL_TIMEOUT: Duration = Duration::from_secs(24);

#[derive(Debug, thiserror::Error)]
#[error("the watch received nothing for {STALL_TIMEOUT:?}, closing the connection")]
struct WatchStalled;

/// The same client for the watch of one kind: it closes a stalled watch, and records the last activity in the metrics.
pub fn with_stall_detection(client: Client, kind: &'static str, metrics: Metrics) -> Client {
    let activity = Activity { kind, metrics };
    wrapped(client, move |client, request| send(client, request, activity.clone()))
}

#[derive(Clone)]
struct Activity {
    kind: &'static str,
    metrics: Metrics,
}

impl Activity {
    fn received(&self) {
        self.metrics.watch_activity.set(self.kind, Timestamp::now().as_second());
    }
}

async fn send(client: Client, request: Request<Body>, activity: Activity) -> kube::Result<Response<WatchBody>> {
    if !is_watch(&request) {
        return Ok(client.send(request).await?.map(|body| WatchBody { body, stall: None, ended: false }));
    }
    let response = client.send(request).await.inspect_err(|error| {
        if is::<ResponseTimeout>(error) {
            activity.metrics.watch_stalls.inc(activity.kind);
        }
    })?;
    activity.received();
    let stall = Some((Box::pin(sleep(STALL_TIMEOUT)), activity));
    Ok(response.map(|body| WatchBody { body, stall, ended: false }))
}

/// A response body that ends with an error when a watch is stalled.
struct WatchBody {
    body: Body,
    /// When the watch counts as stalled; only for a watch.
    stall: Option<(Pin<Box<Sleep>>, Activity)>,
    ended: bool,
}

impl HttpBody for WatchBody {
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
        let Some((stall, activity)) = &mut self.stall else { return frame };
        if frame.is_ready() {
            activity.received();
            stall.as_mut().reset(Instant::now() + STALL_TIMEOUT);
            return frame;
        }
        ready!(stall.as_mut().poll(context));
        activity.metrics.watch_stalls.inc(activity.kind);
        self.ended = true;
        Poll::Ready(Some(Err(kube::Error::Service(Box::new(WatchStalled)))))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, Stream, StreamExt};
    use http_body::SizeHint;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::client::with_time_limits;

    /// A body of chunks that never ends.
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

    /// A server whose response begins after this time and has chunks after these intervals, in seconds.
    fn server(response_after: u64, chunks: &'static [u64]) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            sleep(Duration::from_secs(response_after)).await;
            let chunks = stream::iter(chunks).then(|after| async move {
                sleep(Duration::from_secs(*after)).await;
                Bytes::from_static(b"{}\n")
            });
            Ok::<_, Infallible>(Response::new(Chunks(chunks.chain(stream::pending()).boxed())))
        });
        Client::new(service, "default")
    }

    /// The time in seconds until the watch or list ends, the number of chunks, and whether a stall is counted.
    async fn ended(client: Client, query: &str) -> (u64, usize, bool) {
        let metrics = Metrics::default();
        let client = with_stall_detection(with_time_limits(client), "Node", metrics.clone());
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
    async fn a_watch_that_receives_nothing_is_closed_and_a_list_is_not() {
        for (response_after, chunks, query, expected) in [
            (0, &[][..], "watch=true", (24, 0, true)),
            (0, &[20, 20, 20], "allowWatchBookmarks=true&watch=true", (84, 3, true)),
            (0, &[20, 30], "watch=true&resourceVersion=7", (44, 1, true)),
            (14, &[], "watch=true", (38, 0, true)),
            (16, &[], "watch=true", (15, 0, true)),
            (16, &[30], "limit=500", (1000, 1, false)),
        ] {
            let case = format!("{response_after} {chunks:?} {query}");
            assert_eq!(ended(server(response_after, chunks), query).await, expected, "{case}");
        }
    }
}
