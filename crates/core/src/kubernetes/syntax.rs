//! The syntax of names and labels in Kubernetes.
//!
//! Source: kubernetes/apimachinery `pkg/util/validation/validation.go` as described in "Labels and Selectors" and
//! "Object Names and IDs" of the Kubernetes documentation (kubernetes/website, 2024-08-31).

/// A label or taint key: a name of at most 63 characters, with an optional DNS prefix before a slash.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// A label value: empty, or like the name in a key.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// A resource of containers and RuntimeClasses: a standard one, or an extended resource with a DNS prefix.
///
/// Source: `validateContainerResourceName` of kubernetes/kubernetes `pkg/apis/core/validation/validation.go`, with
/// `pkg/apis/core/helper/helpers.go`.
pub fn is_resource(text: &str) -> bool {
    let own = ["cpu", "memory", "ephemeral-storage"].contains(&text) || text.starts_with("hugepages-");
    let extended = text.contains("kubernetes.io/") || is_qualified_name(&format!("requests.{text}"));
    is_qualified_name(text) && if text.contains('/') { extended && !text.starts_with("requests.") } else { own }
}

/// Labels of lower-case letters, digits and dashes, joined by dots; at most 253 characters.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// One label of lower-case letters, digits and dashes; at most 63 characters.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

fn is_dns_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

pub fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    is_host(host) && port.is_none_or(is_port)
}

/// The name of a host, or an IPv4 address.
pub fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        && !text.starts_with(['.', '-'])
        && !text.ends_with(['.', '-'])
}

/// The problem with an address, if it is not `http://` or `https://` with a host, an optional port and a plain path.
pub fn http_address_problem(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return Some(format!("`{text}` does not begin with https:// or http://"));
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.contains('@') {
        return Some("the address contains credentials, which everyone who can read this object can see".to_owned());
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let is_host = match bracketed {
        Some((address, port)) => {
            address.parse::<std::net::Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        }
        None => is_registry(host),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~%:+".contains(&byte);
    (!is_host || !path.bytes().all(is_plain)).then(|| format!("`{text}` is not a valid HTTP address"))
}

pub fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_labels_are_those_that_kubernetes_accepts() {
        let long = "a".repeat(64);
        for key in ["os", "example.com/team", "node.kubernetes.io/windows-build", "A_b.c-D", &long[..63]] {
            assert!(is_qualified_name(key), "{key}");
        }
        for key in ["", "/a", "a/", "a b", "-a", "a-", "Example.com/a", "a/b/c", "a:b", &long] {
            assert!(!is_qualified_name(key), "{key}");
        }
        for value in ["", "windows", "10.0.20348", "Win_2"] {
            assert!(is_label_value(value), "{value}");
        }
        for value in [" ", "a b", "-", "é", &long] {
            assert!(!is_label_value(value), "{value}");
        }
    }

    #[test]
    fn resources_are_those_of_kubernetes_or_have_a_prefix() {
        for resource in
            ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "microsoft.com/directx"]
        {
            assert!(is_resource(resource), "{resource}");
        }
        for resource in ["", "not a resource!!", "gpu", "requests.cpu", "requests.example.com/gpu", "a b/c", "/gpu"] {
            assert!(!is_resource(resource), "{resource}");
        }
    }

    #[test]
    fn names_of_objects_are_dns_names() {
        for name in ["windows-ltsc2022", "windows-10.0.20348", "a"] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        for name in ["", "Windows", "a..b", "a_b", "-a", "a."] {
            assert!(!is_dns_subdomain(name), "{name}");
        }
        assert!(is_dns_label("runhcs-wcow-process"));
        assert!(!is_dns_label("runhcs.wcow"));
    }
}
