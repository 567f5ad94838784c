//! Placeholder until branch `kubelet` replaces this file: keep the signatures that `domain::pool` calls.
use crate::{
    domain::{Problem, node::Resources, pool::delivery::State, profile::Profile},
    facts::Minor,
};
/// j
pub fn judge(_: &Profile, _: Minor, c: &Resources, a: &Resources) -> State {
    if c == a { State::NotDelivered } else { State::InEffect }
}
/// e
pub fn exceeds(_: &Profile, _: Minor, _: &Resources) -> Option<Problem> {
    None
}
