//! Lists in pages of bounded size. The API server bounds a page only by the number of its objects, and an object by about 1.5 MB,
//! so that one page could be larger than the memory of the operator.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use http::{Method, Request, Response, Uri};
use http_body::Body as _;
use kube::{Client, client::Body};

use super::client::wrapped;

/// The most bytes of a page with more than one object: decoded, it needs no more memory than the largest object.
const MAX_PAGE: usize = 2 * 1024 * 1024;
/// The part of its objects that is requested next of a page that is too large.
const SHRINK: u32 = 8;

/// The same client, whose lists have as many objects in a page as fit into 2 MiB, and at most as many as are requested. A page
/// that is larger is not read to its end, and requested again with fewer objects.
pub fn in_pages(client: Client) -> Client {
    let fitting = Arc::new(AtomicU32::new(u32::MAX));
    wrapped(client, move |client, request| send(client, request, fitting.clone()))
}

async fn send(client: Client, request: Request<Body>, fitting: Arc<AtomicU32>) -> kube::Result<Response<Body>> {
    let requested = limit(request.uri()).filter(|_| *request.method() == Method::GET);
    let Some(requested) = requested else { return client.send(request).await };
    // A list has no body.
    let (head, _) = request.into_parts();
    let mut objects = requested.min(fitting.load(Ordering::Relaxed)).max(1);
    loop {
        let mut page = Request::from_parts(head.clone(), Body::empty());
        *page.uri_mut() = with_limit(&head.uri, objects);
        let (parts, body) = client.send(page).await?.into_parts();
        let bound = if objects == 1 { usize::MAX } else { MAX_PAGE };
        if let Some(content) = read(body, bound).await? {
            // Pages grow again, but not so fast that the next is too large if its objects are of the same size.
            let next = if content.len() < MAX_PAGE / 2 { objects.saturating_mul(2) } else { objects };
            fitting.store(next, Ordering::Relaxed);
            return Ok(Response::from_parts(parts, content.into()));
        }
        objects = (objects / SHRINK).max(1);
    }
}

/// The body; `None` if it is larger than the bound.
async fn read(mut body: Body, bound: usize) -> kube::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if content.len() + data.len() > bound {
            return Ok(None);
        }
        content.extend_from_slice(&data);
    }
    Ok(Some(content))
}

/// The number of objects that a list requests.
fn limit(uri: &Uri) -> Option<u32> {
    uri.query()?.split('&').find_map(|one| one.strip_prefix("limit=")?.parse().ok())
}

/// The address of a list with another number of objects.
fn with_limit(uri: &Uri, objects: u32) -> Uri {
    let query = uri.query().unwrap_or_default().split('&').map(|one| match one.starts_with("limit=") {
        true => format!("limit={objects}"),
        false => one.to_owned(),
    });
    let query = query.collect::<Vec<_>>().join("&");
    format!("{}?{query}", uri.path()).parse().unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use parking_lot::Mutex;

    use super::*;

    /// The pages of a list of objects of these sizes in bytes, and the numbers of objects that were requested.
    async fn listed(sizes: &[usize]) -> (Vec<usize>, Vec<u32>) {
        let (requested, all) = (Arc::new(Mutex::new(Vec::new())), sizes.to_vec());
        let log = requested.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let objects = limit(request.uri()).unwrap();
            log.lock().push(objects);
            let from: usize = request.uri().query().unwrap().split_once("continue=").unwrap().1.parse().unwrap();
            let page: usize = all[from..].iter().take(objects as usize).sum();
            async move { Ok::<_, Infallible>(Response::new(Body::from(vec![b'x'; page]))) }
        });
        let client = in_pages(Client::new(server, "default"));
        let (mut pages, mut read) = (Vec::new(), 0);
        while read < sizes.len() {
            let request = Request::get(format!("/api/v1/pods?&limit=500&continue={read}")).body(Body::empty()).unwrap();
            let body = client.send(request).await.unwrap().into_body();
            let page = super::read(body, usize::MAX).await.unwrap().unwrap();
            let objects = *requested.lock().last().unwrap() as usize;
            assert_eq!(page.len(), sizes[read..].iter().take(objects).sum::<usize>());
            read += objects;
            pages.push(page.len());
        }
        let requested = requested.lock().clone();
        (pages, requested)
    }

    #[tokio::test]
    async fn a_page_has_as_many_objects_as_fit() {
        let mib = 1024 * 1024;
        assert_eq!(listed(&[4096; 600]).await, (vec![500 * 4096, 100 * 4096], vec![500, 500]));
        assert_eq!(listed(&[mib; 2]).await, (vec![2 * mib], vec![500]));
        let (pages, requested) = listed(&[mib; 50]).await;
        assert!(pages.iter().all(|page| *page <= MAX_PAGE), "{pages:?}");
        assert_eq!(requested[..5], [500, 62, 7, 1, 1]);
        let (pages, requested) = listed(&[vec![4096; 600], vec![3 * mib / 2; 8], vec![2048; 600]].concat()).await;
        assert!(pages.iter().all(|page| *page <= MAX_PAGE), "{pages:?}");
        assert_eq!(requested.last(), Some(&500), "pages are large again after the large objects: {requested:?}");
        assert_eq!(
            listed(&[5 * mib]).await,
            (vec![5 * mib], vec![500, 62, 7, 1]),
            "an object is read whatever its size"
        );
    }
}
