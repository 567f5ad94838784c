//! The flags about the kubelet: its version, and the configuration that it runs. They are not part of Ready.

use super::{Case, Stories, names, unreadable, worst_of};
use crate::{
    api::names::{annotation, condition, reason},
    domain::{
        conditions::{Truth, Verdict, counted, some_of},
        node::WindowsNode,
        pool::{Snapshot, configs::ConfigState, delivery, plan::Member},
        tables,
    },
    facts::{
        Minor,
        skew::{Skew, skew},
        support,
    },
};

/// `VersionSkew`: true is a problem.
pub fn version_skew(case: &Case) -> Verdict {
    let verdict =
        |status: Truth, reason, message: String| Verdict::new(condition::VERSION_SKEW, status, reason, message);
    let Some(api_server) = case.snapshot.api_server else {
        return verdict(Truth::Unknown, reason::UNKNOWN_VERSION, "no API server has said its version yet".to_owned());
    };
    let (mut newer, mut older, mut unknown) = (Vec::new(), Vec::new(), Stories::default());
    for Member { node, .. } in &case.active.members {
        match &node.kubelet {
            Err(text) => unknown.add(unreadable("kubelet version", text), [node.name.as_str()]),
            Ok(kubelet) => match skew(kubelet.minor, api_server) {
                Skew::Within => {}
                Skew::KubeletNewer => newer.push(format!("{} ({kubelet})", node.name)),
                Skew::KubeletTooOld { oldest } => {
                    older.push(format!("{} ({kubelet}, oldest allowed {oldest})", node.name));
                }
            },
        }
    }
    let not_checked = not_checked(case);
    let mut found = Vec::new();
    if !newer.is_empty() {
        let message = format!(
            "{} run a kubelet newer than API server {api_server}: upgrade the control plane first",
            some_of(&newer)
        );
        found.push(verdict(Truth::True, reason::KUBELET_NEWER_THAN_API_SERVER, message).about(newer.len()));
    }
    if !older.is_empty() {
        let message =
            format!("{} run a kubelet too old for API server {api_server}: replace the nodes", some_of(&older));
        found.push(verdict(Truth::True, reason::KUBELET_TOO_OLD, message).about(older.len()));
    }
    if !unknown.is_empty() {
        found.push(verdict(Truth::Unknown, reason::UNKNOWN_VERSION, unknown.to_string()).about(unknown.count()));
    }
    match worst_of(found) {
        Some(worst) => Verdict { message: format!("{}{not_checked}; {}", worst.message, case.list()), ..worst },
        None => {
            let list = if not_checked.is_empty() { String::new() } else { format!("; {}", case.list()) };
            let message = format!("every kubelet is within the policy for API server {api_server}{not_checked}{list}");
            verdict(Truth::False, reason::WITHIN_POLICY, message)
        }
    }
}

/// The end of the message where kubelets are newer than the tables.
fn not_checked(case: &Case) -> String {
    let newer = case.nodes(|member| minor_of(member).is_some_and(|minor| support::answered_as(minor).is_some()));
    let Some(newest) = newer.iter().filter_map(|member| minor_of(member)).max() else { return String::new() };
    let notice = tables::not_checked(newest).unwrap_or_default();
    format!(". {}: {notice}", some_of(names(&newer)))
}

fn minor_of(member: &Member) -> Option<Minor> {
    member.node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor)
}

/// Whether a kubelet is outside the policy.
pub fn is_skewed(snapshot: &Snapshot, node: &WindowsNode) -> bool {
    match (&node.kubelet, snapshot.api_server) {
        (Ok(kubelet), Some(api_server)) => skew(kubelet.minor, api_server) != Skew::Within,
        _ => false,
    }
}

/// `ConfigInEffect`.
pub fn config_in_effect(case: &Case) -> Verdict {
    let verdict =
        |status: Truth, reason, message: String| Verdict::new(condition::CONFIG_IN_EFFECT, status, reason, message);
    let not_delivered = |message: String| verdict(Truth::Unknown, reason::NOT_DELIVERED, message);
    match case.active.configs.state {
        ConfigState::NotUsed => {
            let message = "no profile is named, so there is nothing to compare";
            return verdict(Truth::True, reason::NOT_USED, message.to_owned());
        }
        ConfigState::NotFound | ConfigState::Invalid(_) => {
            let message = "there is nothing to compare with: the profile cannot be used; see ProfileResolved";
            return not_delivered(message.to_owned());
        }
        ConfigState::Rendered(_) if case.active.members.is_empty() => {
            return not_delivered("the pool has no nodes yet".to_owned());
        }
        ConfigState::Rendered(_) => {}
    }
    let (mut differ, mut waiting, mut unjudged) = (Vec::new(), Vec::new(), Vec::new());
    for Member { node, delivery, .. } in &case.active.members {
        match delivery {
            Some(delivery::State::InEffect) => {}
            Some(delivery::State::Differs(numbers)) => differ.push(format!("{} ({})", node.name, numbers.join(", "))),
            Some(delivery::State::NotDelivered) => waiting.push(node.name.as_str()),
            None => unjudged.push(node.name.as_str()),
        }
    }
    if !differ.is_empty() {
        let message = format!(
            "{} reserve other amounts than their configuration: put the files of their ConfigMap on them ({}) and start \
             their kubelets again, or find out what else configures them; {}",
            some_of(&differ),
            annotation::CONFIG,
            case.list()
        );
        return verdict(Truth::False, reason::DIFFERS, message).about(differ.len());
    }
    if !waiting.is_empty() && case.withheld {
        let message = "nothing is written for this pool, so its nodes cannot have the rendered configuration";
        return not_delivered(message.to_owned()).about(waiting.len());
    }
    if !waiting.is_empty() {
        let message = format!(
            "{} show a kubelet without the rendered configuration: put the files of their ConfigMap on them ({}); {}",
            some_of(&waiting),
            annotation::CONFIG,
            case.list()
        );
        return not_delivered(message).about(waiting.len());
    }
    if !unjudged.is_empty() {
        let message = format!(
            "{} cannot be compared, because no kubelet version of theirs can be read; see VersionSkew; {}",
            some_of(&unjudged),
            case.list()
        );
        return not_delivered(message).about(unjudged.len());
    }
    let message =
        format!("the numbers of {} are those of their configuration", counted(case.active.members.len(), "node"));
    verdict(Truth::True, reason::IN_EFFECT, message)
}
