//! The checks of symptoms that more than one field shows, or lines of logs.

mod agent;
mod components;
mod images;
mod logs;
mod nodes;
mod pods;

pub(super) use agent::{
    AgentCheck, answered, duplicate_endpoints, kubelet_port, large_log, larger_mtu, missing_endpoints,
    no_load_balancer, no_network, public_exception, stopped_service,
};
pub(super) use components::{CNI, CSI, KUBE_PROXY, before_cni, component};
pub(super) use images::image_platforms;
pub use images::{registry_image, waiting_images};
pub(super) use logs::logged;
pub(super) use nodes::{
    NO_CNI, PLEG, cni_address, expired_lease, known_defects, machines, other_conditions, pools, renewed_lease,
    unknown_conditions,
};
pub(super) use pods::{
    CONNECTION, container_creating, dns_policy, duplicate_addresses, exit_codes, image_mismatch, image_pull,
    terminating,
};
