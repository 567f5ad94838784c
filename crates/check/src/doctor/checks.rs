//! The checks of symptoms that more than one field shows, or lines of logs.

mod agent;
mod components;
mod gmsa;
mod images;
mod logs;
mod nodes;
mod pods;
mod upgrade;
mod volumes;

pub use gmsa::{access_reviews, has_gmsa_webhook};
pub use images::{registry_image, waiting_images};
pub(super) use {
    agent::*,
    components::*,
    gmsa::{credential_specs, refused_accounts, webhooks, with_expiry},
    images::image_platforms,
    logs::{log_place, logged, logs},
    nodes::*,
    pods::*,
    upgrade::ended_settings,
    volumes::volumes,
};
