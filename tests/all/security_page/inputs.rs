//! What others than administrators can write and winpool reads, and the worst that each can achieve with it beyond the rights that it
//! has anyway.

use winpool_core::kind::Kind;

/// A field, or several that one writer can set.
pub struct Input {
    /// The kinds of the objects; none if it is no object.
    pub kinds: &'static [Kind],
    pub field: &'static str,
    writer: &'static str,
    worst: &'static str,
    /// The functions that test it.
    pub tests: &'static [&'static str],
}

impl Input {
    /// The row of the page.
    pub fn row(&self) -> String {
        let names = |of: Vec<&str>| of.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let kinds = self.kinds.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let Self { field, writer, worst, tests, .. } = self;
        format!("| {kinds} | {field} | {writer} | {worst} | {} |\n", names(tests.to_vec()))
    }
}

const KUBELET: &str = "kubelet";
const AGENT: &str = "agent";
const TENANT: &str = "tenant";
const NODE: &[Kind] = &[Kind::NODE];
const NODE_CONFIG: &[Kind] = &[Kind::NODE_CONFIG];
const PODS: &[Kind] = &[Kind::POD, Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET, Kind::JOB];
const MACHINES: &[Kind] =
    &[Kind::MACHINE_DEPLOYMENT, Kind::MACHINE_POOL, Kind::CLUSTER, Kind::MACHINE_SET, Kind::MACHINE];
const TEMPLATES: &[Kind] = &[Kind::KUBEADM_CONFIG_TEMPLATE, Kind::KUBEADM_CONFIG];

/// The rows.
pub const INPUTS: &[Input] = &[
    Input {
        kinds: NODE,
        field: "label `kubernetes.io/os`",
        writer: KUBELET,
        worst: "a Linux node that sets it gets the taints and labels of the pool that selects it. A Windows node that removes it keeps its \
                taints and is not maintained, until a cleanup of the pool lists and releases it",
        tests: &["cleanup_releases_a_node_from_which_its_kubelet_has_removed_the_label_of_windows"],
    },
    Input {
        kinds: NODE,
        field: "labels that a pool selects",
        writer: KUBELET,
        worst: "the node joins any pool whose selector has no label with the prefix `node-restriction.kubernetes.io/`, and gets its taints, \
                labels, configuration and pods. Or it leaves its pool, which holds it with its taints until its release is allowed, or \
                another pool takes it",
        tests: &["a_label_and_a_record_of_its_own_give_a_kubelet_no_protected_label_and_remove_no_taint"],
    },
    Input {
        kinds: NODE,
        field: "labels that two pools select",
        writer: KUBELET,
        worst: "both pools report the conflict and are not Ready. The pool with the verified record keeps the node, else the older one",
        tests: &["the_pool_that_has_a_node_keeps_it_and_both_pools_report_the_conflict"],
    },
    Input {
        kinds: NODE,
        field: "label `winpool.dev/pool` without a valid record",
        writer: KUBELET,
        worst: "a name in the message of `NodesAssigned`, an event, and the metric `winpool_refused_claims`. Nothing is written to the node",
        tests: &["a_label_or_record_that_a_kubelet_wrote_does_not_make_its_node_a_member"],
    },
    Input {
        kinds: NODE,
        field: "labels that winpool sets, with other values; taints at the registration",
        writer: KUBELET,
        worst: "`NodesTainted` of its pool is False, and the node keeps this one value, by which pods may be scheduled to it. A label that \
                it changes back five times is not written to it for ten minutes",
        tests: &[
            "a_label_with_another_value_is_a_conflict",
            "a_taint_with_another_value_is_a_conflict_and_the_rest_is_applied",
            "a_label_is_not_written_for_ten_minutes_after_five_reverts_within_ten_minutes",
        ],
    },
    Input {
        kinds: NODE,
        field: "annotation `winpool.dev/owned`: deleted, forged, or of another node",
        writer: KUBELET,
        worst: "taints and labels of the operator stay on this node. A cleanup of the pool that it names waits. `winpool cleanup \
                --trust-records` removes from this node what it lists",
        tests: &[
            "a_forged_record_does_not_remove_taints_and_labels_of_administrators",
            "a_cleanup_that_trusts_all_records_removes_their_entries",
        ],
    },
    Input {
        kinds: NODE,
        field: "annotation `winpool.dev/owned`: an older one of the same node",
        writer: KUBELET,
        worst: "taints and labels that it lists as added, and that its pool still applies elsewhere, are removed from this node. If no \
                enforcing pool selects the node, it is a held member of the pool in the record again, with all its labels, protected \
                ones too",
        tests: &[
            "an_older_record_of_a_node_does_not_remove_taints_that_its_pool_no_longer_applies",
            "a_former_record_makes_its_node_a_held_member_again_and_changes_no_other_node",
        ],
    },
    Input {
        kinds: NODE,
        field: "in the first ten minutes: no record, and annotation `winpool.dev/registered-with` or the resources of the configuration",
        writer: KUBELET,
        worst: "a taint of an administrator on this node, equal to one of the pool, counts as added by winpool, and is removed with it",
        tests: &[
            "a_taint_that_the_admission_policy_set_for_the_pool_is_added_and_its_mark_is_removed",
            "a_taint_of_a_kubelet_that_registered_with_the_rendered_configuration_is_added",
        ],
    },
    Input {
        kinds: NODE,
        field: "annotation `winpool.dev/config`",
        writer: KUBELET,
        worst: "one unused ConfigMap of a pool is kept for each such node. The node can keep an earlier rendering of its profile",
        tests: &["a_configuration_that_a_node_names_is_kept", "a_person_lets_existing_nodes_get_the_new_configuration"],
    },
    Input {
        kinds: NODE,
        field: "annotation `winpool.dev/cordoned`, `spec.unschedulable`",
        writer: KUBELET,
        worst: "this node is drained without its turn, or loses the cordon of an administrator, or its drain fails at once or never ends",
        tests: &[
            "a_record_of_a_removed_cordon_is_deleted",
            "any_time_in_the_annotation_of_a_cordon_leaves_the_pool_reconciled",
        ],
    },
    Input {
        kinds: NODE,
        field: "`status.nodeInfo`: versions",
        writer: KUBELET,
        worst: "conditions of its pool are False or Unknown, and one ConfigMap is rendered for each combination of versions; of unused ones, \
                three are kept. The node gets pods for a build that it does not run",
        tests: &[
            "a_status_is_within_its_schema",
            "a_node_without_status_is_tainted_and_does_not_affect_ready",
            "thousands_of_nodes_with_a_version_each_are_counted_in_a_status_within_its_schema",
            "the_three_newest_unused_configurations_are_kept",
        ],
    },
    Input {
        kinds: NODE,
        field: "the build that its pool newly names, and condition Ready",
        writer: KUBELET,
        worst: "the RuntimeClasses are changed before a real node of the new build exists, and new pods of them stay Pending; only after an \
                administrator has changed `windowsVersion`",
        tests: &["a_class_is_changed_to_a_new_build_when_it_has_a_ready_node"],
    },
    Input {
        kinds: NODE,
        field: "`containerRuntimeVersion`, which Cluster API copies to its Machine",
        writer: KUBELET,
        worst: "if most machines of a group report a newer line of containerd, the template is rendered for it, and with `rotation: \
                Automatic` all machines are replaced. `containerdVersion` in the pool prevents it",
        tests: &["of_equally_many_machines_the_older_release_line_of_containerd_counts"],
    },
    Input {
        kinds: NODE,
        field: "`status.capacity`, `status.allocatable`",
        writer: KUBELET,
        worst: "`ConfigInEffect` is wrong. The configuration of this node is confirmed without effect, or not confirmed, which is a failure \
                that halts the rollout of its pool at `maxFailures`",
        tests: &[
            "a_configuration_is_in_effect_if_the_reported_resources_match",
            "a_configuration_is_confirmed_only_if_the_node_is_alive_and_reports_its_resources",
            "any_text_is_a_quantity_or_an_error",
        ],
    },
    Input {
        kinds: NODE,
        field: "`status.runtimeHandlers`",
        writer: KUBELET,
        worst: "together with whoever writes the pool: a RuntimeClass with any handler, also one of Linux that no pod for Linux names, \
                selects Windows nodes",
        tests: &["a_class_of_another_operating_system_is_neither_taken_over_nor_created"],
    },
    Input {
        kinds: &[Kind::NODE, Kind::LEASE],
        field: "condition Ready and its times; the Lease",
        writer: KUBELET,
        worst: "with `maxUnavailable: 1`, one node that reports that it is not Ready holds the rollout of its pool, and the message names it",
        tests: &[
            "nodes_that_are_unavailable_for_any_cause_count",
            "nodes_that_are_unavailable_for_any_cause_count",
            "a_renewed_lease_is_a_heartbeat",
        ],
    },
    Input {
        kinds: &[],
        field: "the answer of a kubelet at `/configz`",
        writer: KUBELET,
        worst: "`winpool adopt --configz` prints a profile with settings that the kubelet chose, for an administrator to review",
        tests: &["a_profile_has_the_settings_in_use_and_other_fields_that_differ_from_the_defaults"],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status`: a failure, or nothing",
        writer: AGENT,
        worst: "the rollout of its pool halts at `maxFailures`: no other node begins until an administrator corrects the profile or raises \
                the attempt",
        tests: &[
            "an_agent_that_does_not_report_has_failed_after_the_timeout",
            "after_the_maximum_of_failures_no_node_begins",
        ],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status.phase`, `applied`, `restartedAt`: a false success",
        writer: AGENT,
        worst: "if the configuration changes no resources, or the kubelet reports false ones, it counts as confirmed and goes on to other \
                nodes untested, within `maxUnavailable` and `maxFailures`",
        tests: &[
            "a_status_that_another_agent_wrote_is_not_confirmed_while_the_node_does_not_show_it",
            "a_superseded_configuration_is_confirmed_only_if_the_node_reports_its_resources",
            "the_rollout_makes_no_node_unavailable_beyond_the_limit",
        ],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status.applied`: another configuration",
        writer: AGENT,
        worst: "one ConfigMap is kept for each agent. Services of this node restart without a drain",
        tests: &[
            "configurations_that_agents_run_or_would_restore_are_kept",
            "the_disruption_depends_on_the_files_that_differ",
        ],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status.systemUUID`",
        writer: AGENT,
        worst: "none: it finds mistakes, such as a copied token, and no attacker",
        tests: &["the_report_of_an_agent_on_another_machine_is_ignored"],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status.reason`, `status.message`; names of field managers of any object",
        writer: "agent; whoever writes the object",
        worst: "false text, which may have a false remedy, quoted and escaped, of at most 2,048 characters. With `ChangedOnNode` its own \
                node is drained and its services restart, at most once in an hour or for an attempt",
        tests: &[
            "no_text_from_outside_is_printed_as_it_was_written",
            "a_node_gets_an_event_when_its_configuration_is_confirmed_or_has_failed",
            "a_message_over_one_kilobyte_loses_its_middle",
            "a_status_of_another_schema_keeps_the_fields_that_can_be_parsed",
        ],
    },
    Input {
        kinds: NODE_CONFIG,
        field: "`status.facts`, `status.diagnosis`",
        writer: AGENT,
        worst: "`NodeHygiene` and `winpool doctor` are wrong about this node. The ends of its logs, masked, can be read by who has `view`",
        tests: &[
            "node_hygiene_names_secrets_that_others_read_then_volumes_then_services",
            "logs_have_their_last_lines_without_credentials",
            "a_diagnosis_of_any_node_has_at_most_sixteen_kibibytes",
        ],
    },
    Input {
        kinds: PODS,
        field: "node, selector, affinity, tolerations, operating system",
        writer: TENANT,
        worst: "a new taint of a pool is held on all its nodes, a NoExecute taint on each node with a pod of the tenant, until a \
                [consent](status.md#consents). A taint that the pool has begun to set goes on",
        tests: &[
            "a_new_taint_waits_for_windows_pods_that_do_not_tolerate_it",
            "a_taint_that_the_pool_has_begun_to_set_is_set_on_new_nodes_without_another_check",
            "a_no_execute_taint_is_held_on_a_node_with_pods_that_do_not_tolerate_it",
        ],
    },
    Input {
        kinds: &[Kind::POD],
        field: "a pod without a controller, bound to a node; PodDisruptionBudgets",
        writer: TENANT,
        worst: "the drain of this node fails after the timeout, which halts the rollout of the pool at `maxFailures`. With `drain: Never` \
                pods have no influence",
        tests: &[
            "a_pod_without_a_controller_is_not_evicted_and_the_drain_fails",
            "a_drain_that_takes_too_long_is_a_failure_of_the_attempt_and_the_node_is_uncordoned",
        ],
    },
    Input {
        kinds: PODS,
        field: "`runtimeClassName` of one for Linux",
        writer: TENANT,
        worst: "the class is not taken over by a pool with `adopt: true`, and `RuntimeClassReady` names the workload",
        tests: &["a_class_of_another_operating_system_is_neither_taken_over_nor_created"],
    },
    Input {
        kinds: &[Kind::POD],
        field: "selection of a label `runs.winpool.dev/<release>`",
        writer: TENANT,
        worst: "the label stays on the node of the pod, so that pods for a release that it no longer runs may be scheduled to it",
        tests: &["a_label_of_a_release_stays_while_a_pod_on_the_node_selects_it"],
    },
    Input {
        kinds: &[Kind::POD],
        field: "owner, label `pod-template-hash`, annotation of mirror pods",
        writer: TENANT,
        worst: "it appears as part of another workload of its namespace. As a pod of a DaemonSet or a static pod it is not protected from \
                eviction",
        tests: &["a_pod_belongs_to_the_workload_that_created_it", "static_pods_ignore_taints"],
    },
    Input {
        kinds: &[
            Kind::POD,
            Kind::DEPLOYMENT,
            Kind::STATEFUL_SET,
            Kind::DAEMON_SET,
            Kind::JOB,
            Kind::SERVICE,
            Kind::NODE,
        ],
        field: "size: labels, tolerations, containers, volumes",
        writer: "tenant; kubelet",
        worst: "what is kept is [bounded](#what-load-and-failures-cannot-do), and its own objects are not checked; after 32 MiB of \
                different ones those of others neither. Decoding needs much more for a moment",
        tests: &[
            "of_a_pod_with_many_labels_or_a_large_spec_only_a_part_is_kept",
            "all_values_together_are_bounded_and_room_is_found_again_when_some_are_dropped",
            "large_pods_of_a_tenant_do_not_stay_in_memory_and_the_rest_works",
            "decoding_an_object_takes_at_most_225_bytes_for_each_of_its_bytes",
        ],
    },
    Input {
        kinds: &[Kind::POD, Kind::LIMIT_RANGE, Kind::EVENT, Kind::SERVICE],
        field: "names, memory, fields without effect on Windows, messages of containers and sandboxes",
        writer: "tenant; kubelet",
        worst: "`WorkloadsPlaced` is False with its names and at most 160 characters of each error. Each kind of issue names at most five, \
                which may stand in place of others",
        tests: &[
            "the_message_is_bounded_for_a_thousand_workloads",
            "limits_whose_sum_exceeds_64_bits_are_reported_and_removed_again",
            "memory_defaults_of_the_namespace_apply",
            "a_long_error_keeps_its_end",
            "a_sandbox_that_does_not_start_is_an_issue_of_the_pause_image",
        ],
    },
    Input {
        kinds: PODS,
        field: "names of images for Windows; answers of their registries and token servers",
        writer: "tenant; whoever operates the host",
        worst: "GET requests of the operator to hosts of the tenant's choice over TLS: 16 at once, 8 at one host, each of at most 10 seconds \
                and 5 redirects. False results for images of this registry. More than 20,000 images or 1,024 hosts delay those of others",
        tests: &[
            "the_least_recently_used_entry_is_evicted",
            "lookups_run_concurrently_up_to_a_limit_per_host",
            "redirects_are_followed_up_to_a_limit_and_only_over_tls",
            "a_response_that_is_too_large_is_not_read",
            "the_back_off_is_the_time_in_retry_after_within_bounds",
        ],
    },
    Input {
        kinds: &[Kind::POD, Kind::SECRET],
        field: "`imagePullSecrets` and these Secrets, only with `--pull-secrets`",
        writer: TENANT,
        worst: "platforms of a private image of another namespace appear in issues about the tenant's pods that name it. With pods in eight \
                namespaces that come first in the alphabet, it is not looked up with the Secrets of others",
        tests: &[
            "a_login_is_used_only_for_its_host_and_path",
            "the_secrets_of_one_namespace_do_not_displace_those_of_others",
        ],
    },
    Input {
        kinds: MACHINES,
        field: "labels, versions, references and annotations in the namespace of the Clusters; `status.capacity` of objects of the provider",
        writer: "tenant of that namespace",
        worst: "templates and Secrets for each minor of its groups, and wrong counts. The reference of a group is changed only with the \
                annotation on this group, while it is not paused, and at most twice if another client changes it back",
        tests: &[
            "a_reference_is_switched_if_rotation_owner_pauses_and_topology_allow_it",
            "a_reference_that_another_client_changes_back_twice_is_not_switched_again",
        ],
    },
    Input {
        kinds: TEMPLATES,
        field: "the base template; one with the name and the label of the next template",
        writer: "tenant of that namespace",
        worst: "whoever writes the base template runs commands on the new machines. Another template under that name prevents it, and \
                `MachinesTemplated` names it. Objects in other namespaces are ignored",
        tests: &[
            "a_template_with_other_files_or_commands_is_a_problem",
            "a_changed_template_is_a_problem",
            "objects_of_others_with_the_label_or_annotation_of_the_pool_cause_no_write",
        ],
    },
];
