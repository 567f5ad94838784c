//! What kstatus makes of the status of any pool, after every reconcile.

use serde_json::{Value, json};

use super::*;
use winpool_model::cases;
use winpool_model::kstatus::{KStatus, compute};

/// Status and reason of a condition; empty if the status does not have it, as for most conditions of an invalid spec.
fn state<'a>(pool: &'a Value, name: &str) -> (&'a str, &'a str) {
    let conditions = pool["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == name);
    found.map_or(("", ""), |found| (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap()))
}

/// The property for one pool after its reconcile.
fn check(pool: &Value) -> Result<(), TestCaseError> {
    let ready = state(pool, "Ready");
    let of = |name| state(pool, name).0;
    let expected = match (of("Reconciling"), of("Stalled"), ready.0) {
        _ if pool["metadata"].get("deletionTimestamp").is_some() => KStatus::Terminating,
        ("True", ..) => KStatus::InProgress,
        (_, "True", _) => KStatus::Failed,
        (_, _, "True") => KStatus::Current,
        _ => KStatus::InProgress,
    };
    prop_assert_eq!(compute(pool), expected);
    prop_assert!(!(of("Stalled") == "True" && ready.0 == "True"), "{:?}", ready);
    let spec_is_usable = of("SpecValid") == "True" && of("ProfileResolved") != "False";
    if pool["spec"]["mode"] == "Observe" && expected != KStatus::Terminating {
        let wanted = if spec_is_usable { ("True", "Observing") } else { ("False", ready.1) };
        prop_assert_eq!(ready, wanted);
        prop_assert_eq!(expected == KStatus::Current, spec_is_usable);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(48))]

    /// kstatus, and with it Flux, sees a pool as current exactly if it is Ready, also if it only observes, and never waits for a
    /// pool that cannot continue.
    #[test]
    fn kstatus_follows_ready_in_every_state_of_a_pool(
        mut model in any_model(),
        modes in prop::collection::vec((any::<bool>(), 0..6u8), 3),
        refuses in prop::option::of(any_refusal()),
    ) {
        for (pool, (observes, mistake)) in model.names(POOL).into_iter().zip(modes) {
            model.edit(POOL, &pool, |pool| {
                pool["spec"]["mode"] = json!(if observes { "Observe" } else { "Enforce" });
                match mistake {
                    0 => pool["spec"]["windowsVersion"] = json!("ltsc2000"),
                    1 => pool["spec"]["profileRef"] = json!({"name": "missing"}),
                    2 => pool["spec"]["paused"] = json!(true),
                    _ => {}
                }
            });
        }
        model.refuses = refuses;
        for round in 0..5 {
            for pool in model.names(POOL) {
                model.reconcile_until(&pool, usize::MAX, |_| {});
                if let Some(pool) = model.get(POOL, &pool) {
                    check(pool)?;
                }
            }
            match round {
                2 => model.refuses = None,
                3 => model.names(POOL).iter().for_each(|pool| model.delete(POOL, pool)),
                _ => {}
            }
        }
    }
}
