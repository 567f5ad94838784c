//! What scripts print of the host network service.

use crate::script::Lines;

/// The number of load balancers, by the output of `hnsdiag list loadbalancers`: each has one line that begins with its identifier, in both
/// forms of the list.
pub fn load_balancers(lines: &Lines) -> Option<u32> {
    let ids = lines.values("loadbalancer").map(|line| match line.strip_prefix("Load Balancer") {
        Some(rest) => rest.trim_start_matches([' ', ':']),
        None => line,
    });
    let number = u32::try_from(ids.filter(|id| is_identifier(id)).count()).ok();
    number.filter(|_| lines.is_read("loadbalancer"))
}

/// Whether a text begins with an identifier such as `3599612c-54b4-4b9d-9258-4fc5e2100549`.
fn is_identifier(text: &str) -> bool {
    text.get(..36).is_some_and(|id| {
        id.char_indices()
            .all(|(at, one)| if [8, 13, 18, 23].contains(&at) { one == '-' } else { one.is_ascii_hexdigit() })
    })
}
