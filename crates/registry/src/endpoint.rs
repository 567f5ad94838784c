//! The endpoints of an image: the mirrors of its registry, then the registry itself.
//!
//! Source: containerd/containerd, `docs/hosts.md` and `core/remotes/docker/{registry,resolver}.go`: the API of a mirror is
//! below its path and `/v2`, and the parameter `ns` names the mirrored registry.

use reqwest::Url;
use winpool_core::image::Reference;
use winpool_facts::containerd::DOCKER_HUB;

use super::{failure::Failure, settings::RegistrySettings};

/// The root of a registry's API.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    root: Url,
    /// The mirrored registry; `None` if this is not a mirror.
    namespace: Option<String>,
}

impl Endpoint {
    /// The registry of an image.
    pub(super) fn registry(image: &Reference, settings: &RegistrySettings) -> Result<Self, Failure> {
        let registry = image.registry();
        let host = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
        let scheme = if settings.plain_http.contains(host) { "http" } else { "https" };
        let root = Url::parse(&format!("{scheme}://{host}/v2")).ok().filter(|url| url.path() == "/v2" && is_valid(url));
        let root = root.ok_or_else(|| Failure::new(format!("`{registry}` is not a valid registry name")))?;
        Ok(Self { root, namespace: None })
    }

    /// A mirror of a registry, such as `https://mirror.example` or `https://mirror.example/v2/project`.
    pub(super) fn mirror(address: &str, image: &Reference) -> Result<Self, Failure> {
        let invalid = || Failure::new("the address of a mirror is invalid");
        let mut root = Url::parse(address).ok().filter(is_valid).ok_or_else(invalid)?;
        let path = root.path().trim_end_matches('/').to_owned();
        // The mirror is a project in a registry, with the API below it.
        let has_project = path.strip_prefix("/v2/").is_some_and(|project| !project.is_empty());
        root.set_path(&if has_project { path } else { format!("{path}/v2") });
        Ok(Self { root, namespace: Some(image.registry().to_owned()) })
    }

    /// The host, with its port if it has one.
    pub(super) fn host(&self) -> String {
        host(&self.root)
    }

    /// The host that credentials for this endpoint are for.
    pub(super) fn credentials_host(&self, image: &Reference) -> String {
        if self.namespace.is_some() { self.host() } else { image.registry().to_owned() }
    }

    pub(super) fn key(&self) -> &str {
        self.root.as_str()
    }

    /// The URL of an index or a manifest, by tag or digest.
    pub(super) fn manifest(&self, image: &Reference, name: &str) -> Url {
        self.url(&format!("{}/manifests/{name}", image.repository()))
    }

    pub(super) fn blob(&self, image: &Reference, digest: &str) -> Url {
        self.url(&format!("{}/blobs/{digest}", image.repository()))
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.root.clone();
        url.set_path(&format!("{}/{path}", self.root.path()));
        if let Some(namespace) = &self.namespace {
            url.query_pairs_mut().append_pair("ns", namespace);
        }
        url
    }
}

/// The host of a URL, with its port if it has one.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether a URL is http or https, with a host, and without credentials and fragment.
pub(super) fn is_valid(url: &Url) -> bool {
    let has_secrets = !url.username().is_empty() || url.password().is_some();
    matches!(url.scheme(), "http" | "https") && url.has_host() && !has_secrets && url.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn the_endpoint_of_a_registry_has_its_host_and_scheme() {
        let settings =
            RegistrySettings { plain_http: ["127.0.0.1:5000".to_owned()].into(), ..RegistrySettings::default() };
        let table = [
            ("nginx", "https://registry-1.docker.io/v2/library/nginx/manifests/t"),
            ("quay.io/team/app", "https://quay.io/v2/team/app/manifests/t"),
            ("registry.example:5000/app", "https://registry.example:5000/v2/app/manifests/t"),
            ("127.0.0.1:5000/app", "http://127.0.0.1:5000/v2/app/manifests/t"),
            ("127.0.0.1:5001/app", "https://127.0.0.1:5001/v2/app/manifests/t"),
        ];
        for (text, url) in table {
            let image = image(text);
            assert_eq!(Endpoint::registry(&image, &settings).unwrap().manifest(&image, "t").as_str(), url);
        }
    }

    #[test]
    fn a_registry_name_that_is_not_a_host_is_refused() {
        for registry in ["user:pass@evil.example", "evil.example/path", "evil.example?", "evil.example#", "", "a b"] {
            let image = Reference::with_tag(registry.to_owned(), "app".to_owned(), "1".to_owned());
            assert!(Endpoint::registry(&image, &RegistrySettings::default()).is_err(), "{registry}");
        }
    }

    #[test]
    fn the_endpoint_of_a_mirror_has_its_path_and_the_mirrored_registry() {
        let image = image("nginx");
        let table = [
            ("https://mirror.example", "https://mirror.example/v2/library/nginx/blobs/d?ns=docker.io"),
            ("https://mirror.example/", "https://mirror.example/v2/library/nginx/blobs/d?ns=docker.io"),
            (
                "https://mirror.example:8443/hub",
                "https://mirror.example:8443/hub/v2/library/nginx/blobs/d?ns=docker.io",
            ),
            ("https://harbor.example/v2/hub/", "https://harbor.example/v2/hub/library/nginx/blobs/d?ns=docker.io"),
            ("http://mirror.example", "http://mirror.example/v2/library/nginx/blobs/d?ns=docker.io"),
        ];
        for (address, url) in table {
            assert_eq!(Endpoint::mirror(address, &image).unwrap().blob(&image, "d").as_str(), url);
        }
        for address in ["mirror.example", "ftp://mirror.example", "https://", "https://u:p@mirror.example", "", "::"] {
            assert!(Endpoint::mirror(address, &image).is_err(), "{address}");
        }
    }
}
