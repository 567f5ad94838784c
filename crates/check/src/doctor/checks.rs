//! The checks of symptoms that more than one field shows, or lines of logs.

mod agent;
mod components;
mod images;
mod logs;
mod nodes;
mod pods;
mod upgrade;

pub use images::{registry_image, waiting_images};
pub(super) use {
    agent::*,
    components::*,
    images::image_platforms,
    logs::{log_place, logged, logs},
    nodes::*,
    pods::*,
    upgrade::ended_settings,
};
