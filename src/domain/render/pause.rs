//! Placeholder until branch `kubelet` replaces this file: keep the signatures that `domain::pool` calls.
use crate::{
    domain::profile::Profile,
    facts::{ContainerdVersion, Minor, OsVersion},
};
/// c
pub fn cannot_run(_: &Profile, _: Minor, _: OsVersion, _: Option<ContainerdVersion>) -> Option<String> {
    None
}
