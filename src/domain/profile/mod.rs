//! Placeholder until branch `kubelet` replaces this file: keep the signatures that `domain::pool` calls.
use crate::{api::WindowsRuntimeProfileSpec, domain::Problem};
/// p
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// w
    pub warnings: Vec<Problem>,
}
/// c
/// # Errors
/// never
pub fn check(_: &WindowsRuntimeProfileSpec) -> Result<Profile, Vec<Problem>> {
    Ok(Profile { warnings: vec![] })
}
pub mod status;
