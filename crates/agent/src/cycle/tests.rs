//! Tables of single outcomes, and the property that any sequence of faults ends with one configuration as a whole.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    change_plan::{FileEdit, HealthEndpoint, RuntimeCheck, ServiceEdit},
    host::ServiceDefinition,
    tests::fake::{CONFIG, FakeHost, Fault, KUBECONFIG},
};

const OLD: &str = "old\n";
const DROP_IN: &str = r"C:\k\conf.d\50-winpool.conf";
const LIMITS: Limits = Limits {
    service: Duration::from_secs(10),
    stable: Duration::from_secs(5),
    verify: Duration::from_secs(60),
    confirm: Duration::from_secs(120),
};

fn id(attempt: u32) -> ConfigId {
    ConfigId { config: "web-1".into(), digest: "1".into(), attempt }
}

/// A new configuration, a new file, and a new command line of the kubelet.
fn plan(host: &FakeHost, config: &str) -> ChangePlan {
    let before = host.0.borrow().service("kubelet").unwrap().definition.clone();
    let after = ServiceDefinition { command: "kubelet.exe --new".into(), ..before.clone() };
    let health = Some(HealthEndpoint { port: 10248, path: "/healthz".into() });
    ChangePlan {
        files: vec![
            FileEdit {
                path: CONFIG.into(),
                before: Some(OLD.as_bytes().to_vec()),
                after: Some(config.as_bytes().to_vec()),
            },
            FileEdit { path: DROP_IN.into(), before: None, after: Some(b"drop-in".to_vec()) },
        ],
        services: vec![ServiceEdit { before, after }],
        restarts: vec![
            Restart { service: "containerd".into(), program: None, children: Vec::new(), health: None },
            Restart { service: "kubelet".into(), program: Some("kubelet.exe".into()), children: Vec::new(), health },
        ],
        kubelet: json!({"maxPods": 42}).as_object().unwrap().clone(),
        kubeconfig: Some(KUBECONFIG.into()),
        omitted: None,
        runtime: Some(RuntimeCheck { pipe: "pipe".into(), pause_image: None, changes_pulls: false }),
    }
}

/// A change of a host that has begun.
fn begun<'a>(host: &'a FakeHost, config: &str) -> Cycle<'a> {
    let mut cycle = Cycle::resume(host, LIMITS).unwrap();
    cycle.begin(host, id(0), plan(host, config)).unwrap();
    cycle
}

/// Why the change of a host is rolled back, according to its journal.
fn rollback(host: &FakeHost) -> Option<RollbackCause> {
    match Journal::load(host).unwrap().change?.direction {
        Direction::RollBack(failure) => Some(failure),
        Direction::Apply => None,
    }
}

/// Whether the operator confirms a verified configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Confirms,
    Silent,
}

/// Runs the agent until nothing is in progress, and starts it again after each crash.
fn run(host: &FakeHost, config: &str, operator: Operator) -> Journal {
    let plan = plan(host, config);
    let mut begun = false;
    for _ in 0..200 {
        let rebooted = host.revive();
        let Ok(mut cycle) = Cycle::resume(host, LIMITS) else { continue };
        if rebooted && host.0.borrow().restores {
            let _ = cycle.restore(RestoreCause::Reboot);
        }
        begun = begun || cycle.journal().change.is_some() || cycle.journal().applied.is_some();
        if !begun && cycle.journal().rejected.is_empty() {
            match cycle.begin(host, id(0), plan.clone()) {
                Ok(()) => begun = true,
                Err(_) => host.sleep(Duration::from_secs(5)),
            }
        }
        if finish(host, &mut cycle, operator) {
            return cycle.journal().clone();
        }
    }
    panic!("the change does not end: {:?}", host.0.borrow());
}

/// Advances until nothing is in progress; false after a crash.
fn finish(host: &FakeHost, cycle: &mut Cycle, operator: Operator) -> bool {
    for _ in 0..5_000 {
        if host.0.borrow().crashed {
            return false;
        }
        let verified =
            matches!(cycle.journal().change.as_ref().map(|change| change.stage), Some(ChangeStage::Confirm(_)));
        let confirmed = (verified && operator == Operator::Confirms).then_some("1");
        match cycle.advance(host, Some(&id(0)), confirmed) {
            Ok(NextStep::Idle) => return cycle.journal().applied.is_some() || !cycle.journal().rejected.is_empty(),
            Ok(NextStep::Continue) => {}
            Ok(NextStep::Wait) | Err(_) => host.sleep(Duration::from_secs(1)),
        }
    }
    false
}

/// The files, the definition and the configuration that the kubelet runs, if they are all the new or all the former ones.
fn outcome(host: &FakeHost) -> Option<&'static str> {
    let state = host.0.borrow();
    let kubelet = state.service("kubelet").unwrap().clone();
    drop(state);
    let found = (
        host.text(CONFIG) == OLD,
        !host.0.borrow().files.contains_key(DROP_IN),
        kubelet.definition.command == "kubelet.exe",
        kubelet.loaded.0.command == "kubelet.exe",
        host.running().map(|loaded| loaded == OLD),
    );
    match found {
        (true, true, true, true, Some(true)) => Some("former"),
        (false, false, false, false, Some(false)) => Some("new"),
        _ => None,
    }
}

#[test]
fn a_service_is_started_again_only_when_its_processes_have_ended() {
    let host = FakeHost::new(OLD, []);
    host.0.borrow_mut().lingers = true;
    let journal = run(&host, "new\n", Operator::Confirms);
    assert_eq!((outcome(&host), journal.rejected), (Some("new"), Vec::new()));
}

#[test]
fn a_configuration_is_kept_only_if_it_was_verified_and_confirmed() {
    for (config, operator, expected) in [
        ("new\n", Operator::Confirms, Ok(())),
        ("new\n", Operator::Silent, Err(RollbackReason::NotConfirmed)),
        ("exit\n", Operator::Confirms, Err(RollbackReason::RestartFailed)),
        ("pending\n", Operator::Confirms, Err(RollbackReason::RestartFailed)),
        ("crash\n", Operator::Confirms, Err(RollbackReason::NotHealthy)),
        ("respawn\n", Operator::Confirms, Err(RollbackReason::NotHealthy)),
        ("unhealthy\n", Operator::Confirms, Err(RollbackReason::NotHealthy)),
        ("slow\n", Operator::Confirms, Err(RollbackReason::NotHealthy)),
        ("offline\n", Operator::Confirms, Err(RollbackReason::LeaseNotRenewed)),
        ("evict\n", Operator::Confirms, Err(RollbackReason::PodsFailed)),
        ("overridden\n", Operator::Confirms, Err(RollbackReason::ConfigNotUsed)),
        ("no-network\n", Operator::Confirms, Err(RollbackReason::SandboxFailed)),
        ("no-sandbox\n", Operator::Confirms, Err(RollbackReason::SandboxFailed)),
    ] {
        let host = FakeHost::new(OLD, []);
        let journal = run(&host, config, operator);
        let (kept, rejected) = match expected {
            Ok(()) => ("new", None),
            Err(reason) => ("former", Some(reason)),
        };
        assert_eq!(outcome(&host), Some(kept), "{config:?} {operator:?}");
        assert_eq!(journal.applied.is_some(), expected.is_ok(), "{config:?} {operator:?}");
        assert_eq!(journal.rejection(&id(0)).map(|found| found.failure.reason), rejected, "{config:?} {operator:?}");
        assert!(!host.0.borrow().restores, "the restore service is removed");
    }
}

#[test]
fn a_kubelet_that_is_not_healthy_is_reported_with_the_status_of_its_endpoint() {
    let host = FakeHost::new(OLD, []);
    let journal = run(&host, "unhealthy\n", Operator::Confirms);
    let message = &journal.rejection(&id(0)).unwrap().failure.message;
    assert!(message.contains("kubelet: http://127.0.0.1:10248/healthz answers 500"), "{message}");
}

#[test]
fn a_kubelet_that_has_ended_is_reported_with_the_error_in_its_log() {
    for (config, is_quoted) in [("exit\n", true), ("unhealthy\n", false)] {
        let host = FakeHost::new(OLD, []);
        let at = host.now().strftime("%m%d %H:%M:%S").to_string();
        let log = format!(
            "I{at}.000000    5657 server.go:501] \"Kubelet version\"\n\
             E{at}.000000    5657 run.go:72] \"command failed\" err=\"failed to run Kubelet: unknown option\"\n"
        );
        host.0.borrow_mut().files.insert(r"C:\var\log\kubelet\kubelet.log".to_owned(), log.into_bytes());
        let journal = run(&host, config, Operator::Confirms);
        let message = &journal.rejection(&id(0)).unwrap().failure.message;
        let quote = ". Its log ends with: E";
        assert_eq!(
            message.contains(quote) && message.ends_with("failed to run Kubelet: unknown option\""),
            is_quoted,
            "{message}"
        );
    }
}

#[test]
fn the_sandbox_that_could_be_started_before_the_change_has_to_start_after_it() {
    for (before, after, applied, unobserved) in [
        ("old", "new", true, ""),
        ("old", "no-network", false, ""),
        ("no-network", "no-network", true, ""),
        ("no-network", "no-sandbox", false, ""),
        (
            "no-sandbox",
            "no-sandbox",
            true,
            "a new pod was not observed, because none could be started before the change: pull access denied",
        ),
    ] {
        let host = FakeHost::new(&format!("{before}\n"), []);
        let journal = run(&host, &format!("{after}\n"), Operator::Confirms);
        assert_eq!(journal.applied.is_some(), applied, "{before} {after}");
        assert_eq!(journal.unobserved.unwrap_or_default(), unobserved, "{before} {after}");
    }
}

#[test]
fn a_change_counts_without_its_pods_if_the_kubeconfig_of_the_kubelet_cannot_be_used() {
    let not_observed = |why: &str| format!("the pods of the node were not observed, because {why}");
    for (path, content, expected) in [
        (None, Some("of the kubelet"), not_observed("its kubelet has no flag --kubeconfig")),
        (Some(KUBECONFIG), None, not_observed(r"C:\k\kubelet.conf does not exist")),
        (Some(KUBECONFIG), Some("expired"), not_observed(r"C:\k\kubelet.conf: Unauthorized")),
        (Some(KUBECONFIG), Some("of the kubelet"), String::new()),
    ] {
        let host = FakeHost::new(OLD, []);
        host.0.borrow_mut().files.remove(KUBECONFIG);
        content.into_iter().for_each(|content| host.put(KUBECONFIG, content));
        let mut cycle = Cycle::resume(&host, LIMITS).unwrap();
        let plan = ChangePlan { kubeconfig: path.map(str::to_owned), ..plan(&host, "new\n") };
        cycle.begin(&host, id(0), plan).unwrap();
        assert!(finish(&host, &mut cycle, Operator::Confirms));
        assert_eq!(outcome(&host), Some("new"), "{expected}");
        assert_eq!(cycle.journal().unobserved.clone().unwrap_or_default(), expected);
    }
}

#[test]
fn a_change_does_not_begin_while_the_api_server_does_not_answer() {
    let host = FakeHost::new(OLD, [(0, Fault::Offline)]);
    let mut cycle = Cycle::resume(&host, LIMITS).unwrap();
    assert!(cycle.begin(&host, id(0), plan(&host, "new\n")).is_err());
    assert_eq!(cycle.journal(), &Journal::default());
}

#[test]
fn a_plan_without_changes_is_applied_at_once() {
    let host = FakeHost::new(OLD, []);
    let mut cycle = Cycle::resume(&host, LIMITS).unwrap();
    cycle.begin(&host, id(0), ChangePlan::default()).unwrap();
    assert_eq!(cycle.journal().applied, Some(id(0)));
    assert_eq!(cycle.advance(&host, Some(&id(0)), None).unwrap(), NextStep::Idle);
    assert!(!host.0.borrow().restores);
}

#[test]
fn another_configuration_supersedes_an_unconfirmed_one_without_rejecting_it() {
    let host = FakeHost::new(OLD, []);
    let mut cycle = begun(&host, "new\n");
    let other = ConfigId { digest: "2".into(), ..id(0) };
    for _ in 0..200 {
        if cycle.advance(&host, Some(&other), None).unwrap() == NextStep::Idle {
            break;
        }
        host.sleep(Duration::from_secs(1));
    }
    assert_eq!(outcome(&host), Some("former"));
    assert_eq!((&cycle.journal().applied, cycle.journal().rejected.len()), (&None, 0));
}

#[test]
fn a_reboot_before_the_confirmation_restores_the_former_configuration_without_the_network() {
    let host = FakeHost::new(OLD, []);
    let mut cycle = begun(&host, "exit\n");
    assert_eq!(cycle.advance(&host, Some(&id(0)), None).unwrap(), NextStep::Continue, "the files are written");
    host.0.borrow_mut().faults = [(0, Fault::Reboot), (0, Fault::Offline)].into();
    assert!(cycle.advance(&host, Some(&id(0)), None).is_err());
    assert!(host.revive() && host.running().is_none(), "the new configuration does not start");
    Cycle::resume(&host, LIMITS).unwrap().restore(RestoreCause::Reboot).unwrap();
    assert_eq!(outcome(&host), Some("former"));
    assert_eq!(rollback(&host).unwrap().reason, RollbackReason::Rebooted);
}

#[test]
fn the_former_configuration_is_restored_also_if_processes_cannot_be_listed() {
    let host = FakeHost::new(OLD, []);
    let mut cycle = begun(&host, "new\n");
    cycle.advance(&host, Some(&id(0)), None).unwrap();
    host.0.borrow_mut().lists_processes = false;
    cycle.advance(&host, Some(&id(0)), None).unwrap();
    assert_eq!(rollback(&host).unwrap().message, "kubelet: processes cannot be listed");
    cycle.restore(RestoreCause::ByHand).unwrap();
    assert_eq!(outcome(&host), Some("former"));
}

#[test]
fn a_restore_by_hand_is_recorded_as_such() {
    let host = FakeHost::new(OLD, []);
    let mut cycle = begun(&host, "new\n");
    cycle.advance(&host, Some(&id(0)), None).unwrap();
    cycle.restore(RestoreCause::ByHand).unwrap();
    assert_eq!(outcome(&host), Some("former"));
    assert_eq!(rollback(&host).unwrap().reason, RollbackReason::RestoredByHand);
}

#[test]
fn a_journal_that_cannot_be_parsed_changes_nothing() {
    let host = FakeHost::new(OLD, []);
    host.replace(crate::journal::JOURNAL, b"{").unwrap();
    assert!(Cycle::resume(&host, LIMITS).is_err());
    assert_eq!(outcome(&host), Some("former"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// After any sequence of faults the node runs the new configuration as a whole or the former one as a whole.
    #[test]
    fn any_sequence_of_faults_ends_with_one_configuration_as_a_whole(
        config in proptest::sample::select(vec!["new\n", "exit\n", "pending\n", "crash\n", "respawn\n", "unhealthy\n", "slow\n", "offline\n", "evict\n", "overridden\n", "no-sandbox\n"]),
        operator in proptest::sample::select(vec![Operator::Confirms, Operator::Silent]),
        faults in proptest::collection::vec((0..60_u32, proptest::sample::select(Fault::ALL.to_vec())), 0..6),
    ) {
        let host = FakeHost::new(OLD, faults.clone());
        let journal = run(&host, config, operator);
        let expected = if journal.applied.is_some() { "new" } else { "former" };
        prop_assert_eq!(outcome(&host), Some(expected), "{:?}", journal);
        prop_assert_eq!(journal.applied.is_some(), journal.rejected.is_empty());
        prop_assert!(config == "new\n" || journal.applied.is_none(), "{} was confirmed", config);
        prop_assert!(!host.0.borrow().restores);
    }
}
