//! Requests for the objects of a kind, from its row.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersion,
};
use kube_runtime::watcher;
use winpool_core::kind::{Kind, Selection};

/// The resource of a kind.
pub fn resource(kind: Kind) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersion::gv(kind.group, kind.version).with_kind(kind.name), kind.plural)
}

/// The type with which a kind of object is found at run time: none for the types of Kubernetes.
pub trait OfKind {
    fn of(kind: Kind) -> Self;
}

impl OfKind for () {
    fn of(_: Kind) -> Self {}
}

impl OfKind for ApiResource {
    fn of(kind: Kind) -> Self {
        resource(kind)
    }
}

/// Requests for all objects of a kind.
pub fn all<K>(client: Client, kind: Kind) -> Api<K>
where
    K: kube::Resource<DynamicType: OfKind>,
{
    Api::all_with(client, &K::DynamicType::of(kind))
}

/// Requests for the objects of a kind in a namespace.
pub fn namespaced(client: Client, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &resource(kind))
}

/// The watch of the objects of a kind that are read.
pub fn watched(kind: Kind) -> watcher::Config {
    let (labels, fields) = selectors(kind.selection);
    watcher::Config { label_selector: labels, field_selector: fields, ..watcher::Config::default() }
}

/// The list of the objects of a kind that are read.
pub(super) fn listed(kind: Kind) -> ListParams {
    let (labels, fields) = selectors(kind.selection);
    ListParams { label_selector: labels, field_selector: fields, ..ListParams::default() }
}

/// The label selector and the field selector.
fn selectors(selection: Selection) -> (Option<String>, Option<String>) {
    match selection {
        Selection::All => (None, None),
        Selection::Label(key, value) => (Some(format!("{key}={value}")), None),
        Selection::Fields(fields) => (None, Some(fields.to_owned())),
    }
}
