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
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::Service;

use super::client::wrapped;
use crate::admin::Metrics;

/// For how long a watch is asked, in seconds.
pub const WATCH: u32 = 20;
/// How long nothing may come over a watch: as long as it is asked for, and a little.
const SILENCE: Duration = Duration::from_secs(24);
/// How long the API server may take to begin its answer to a watch. A new watch may be sent over an idle connection that is
/// dead as well, and the next one after that finds none.
const BEGIN: Duration = Duration::from_secs(15);

/// Nothing came over a watch.
#[derive(Debug, thiserror::Error)]
#[error("nothing came from the API server for {0:?}: the connection is taken for dead")]
struct Silent(Duration);

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

    fn silent(&self, limit: Duration) -> kube::Error {
        self.metrics.watch_stall(self.kind);
        kube::Error::Service(Box::new(Silent(limit)))
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
        let watches = request.uri().query().into_iter().flat_map(|query| query.split('&')).any(|one| one == "watch=true");
        async move {
            if !watches {
                return Ok(client.send(request).await?.map(Alive::unlimited));
            }
            let response = timeout(BEGIN, client.send(request)).await.map_err(|_| signs.silent(BEGIN))??;
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
        let silent = signs.silent(SILENCE);
        self.ended = true;
        Poll::Ready(Some(Err(silent)))
    }
}
