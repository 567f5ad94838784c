//! Maintenance windows, by the clock.

use std::time::Duration;

use e2e::{agent::Machine, cluster::SOON, rollout::Step, wait::until};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Unit, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::{Fleet, POOL, is_assignment, node};

#[tokio::test]
async fn outside_of_the_maintenance_windows_nothing_is_drained_or_assigned_and_the_status_says_when_the_next_begins() {
    let (mut fleet, _operator) = Fleet::configured(&[]).await;
    let begun = |step: &Step| is_assignment(step) || *step == Step::Cordoned;
    let before = fleet.log().count(begun);

    // The next minute that begins in twenty seconds at least.
    let begins = (Timestamp::now() + SignedDuration::from_secs(80)).to_zoned(TimeZone::UTC);
    let begins = begins.round(jiff::ZonedRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Trunc)).unwrap();
    let window = json!({ "schedule": begins.strftime("%M %H * * *").to_string(), "duration": "30m" });
    let delivery = json!({ "maintenanceWindows": [window], "rollout": { "drain": "Always" } });
    fleet.cluster.edit_pool(POOL, json!({ "spec": { "delivery": delivery } })).await.unwrap();
    fleet.apply_profile(50).await;
    let awaits = fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "AwaitsWindow").await.unwrap();
    let time = begins.timestamp();
    assert!(awaits.message.contains(&format!("the next begins at {time} ")), "{}", awaits.message);
    fleet.cluster.until_condition(POOL, "Ready", "True", "AsSpecified").await.unwrap();

    // A new node gets its first configuration at once.
    fleet.kubelets.add(vec![node("win-09")]).await.unwrap();
    let machine = Machine::new("win-09", fleet.kubelets.clone(), &fleet.cluster.control_plane).unwrap();
    fleet.machines.insert("win-09".to_owned(), machine);
    fleet.start_agent("win-09");
    fleet.until_assigned("win-09").await;
    assert_eq!(fleet.log().count(begun), before + 1);

    let condition = async || fleet.cluster.condition(POOL, "ConfigInEffect").await;
    let waits = |found: &Condition| found.reason == "AwaitsWindow" || found.reason == "RollingOut";
    assert!(waits(&condition().await.unwrap()));
    let changed = async || Ok(fleet.log().count(begun));
    let until_window = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
    until("the window begins, and a node with it", until_window + SOON, changed, |count| *count > before + 1)
        .await
        .unwrap();
    let log = fleet.log();
    let early = log.moments().iter().filter(|moment| begun(&moment.step) && moment.name != "win-09").skip(before);
    // The time of an assignment has whole seconds.
    assert!(early.clone().all(|moment| moment.at >= time - 1.second()), "{:?}", early.collect::<Vec<_>>());
    fleet.cluster.nothing_was_forbidden().unwrap();
    fleet.stop().await;
}
