//! Which pools take a pod, and if none does, what is in the way.

use std::{collections::BTreeMap, fmt};

use super::{
    Scheduling, System, Template,
    ground::{Class, Ground, Kind, PoolGround, Taint},
};
use crate::{api::names::label, facts::runtimes::HANDLERS};

/// What is in the way of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// Its RuntimeClass does not exist.
    NoClass {
        /// The class.
        class: String,
        /// Those of the pools.
        known: Vec<String>,
    },
    /// Its selector and that of its RuntimeClass exclude each other.
    Conflict {
        /// The class.
        class: String,
        /// What the class selects, as `key=value`.
        of_class: String,
        /// What the pod selects, as `key=value`.
        own: String,
    },
    /// No node has all that it selects.
    Selector {
        /// The pool that comes nearest.
        pool: String,
        /// What its nodes do not have.
        missed: String,
    },
    /// A taint is not tolerated.
    Taint {
        /// The pool with the taint.
        pool: String,
        /// The taint.
        taint: Taint,
        /// A class that brings the toleration.
        class: Option<String>,
    },
    /// The container runtime has no such handler.
    Handler {
        /// The pool whose nodes do not have it.
        pool: String,
        /// The class.
        class: String,
        /// Its handler.
        handler: String,
        /// Those that the runtime has.
        available: Vec<String>,
    },
}

/// A pod's spec with what its RuntimeClass adds when it is created.
pub struct Effective<'a> {
    template: &'a Template,
    scheduling: Scheduling,
    /// Its class, if it names one.
    pub class: Option<(&'a str, &'a Class)>,
}

/// The kinds of nodes in a pool that take a pod.
pub type Place<'a> = (&'a PoolGround, Vec<&'a Kind>);

impl<'a> Effective<'a> {
    /// Adds what the class adds: as the RuntimeClass admission plugin does, key by key, with tolerations united.
    ///
    /// # Errors
    /// The class does not exist, or its selector and the pod's exclude each other: such a pod is refused.
    pub fn of(template: &'a Template, ground: &'a Ground) -> Result<Self, Obstacle> {
        let Some(name) = template.runtime_class.as_deref() else {
            return Ok(Self { template, scheduling: template.scheduling.clone(), class: None });
        };
        let Some(class) = ground.classes.get(name) else {
            let of_pools = ground.pools.iter().flat_map(|pool| &pool.classes).map(|(class, _)| class);
            let known = of_pools.filter(|class| ground.classes.contains_key(*class)).cloned().collect();
            return Err(Obstacle::NoClass { class: name.to_owned(), known });
        };
        let mut scheduling = template.scheduling.clone();
        for (key, value) in &class.scheduling.node_selector {
            match scheduling.node_selector.insert(key.clone(), value.clone()) {
                Some(own) if own != *value => {
                    let (of_class, own) = (format!("{key}={value}"), format!("{key}={own}"));
                    return Err(Obstacle::Conflict { class: name.to_owned(), of_class, own });
                }
                _ => {}
            }
        }
        scheduling.tolerations.extend(class.scheduling.tolerations.iter().cloned());
        Ok(Self { template, scheduling, class: Some((name, class)) })
    }

    /// The same for a pod that exists: what it has of its class was put there when it was created, and would be put there
    /// anew at its next start.
    ///
    /// # Errors
    /// The class does not exist.
    pub fn of_pod(template: &'a Template, ground: &'a Ground) -> Result<Self, Obstacle> {
        let name = template.runtime_class.as_deref();
        let Some((name, class)) = name.and_then(|name| Some((name, ground.classes.get(name)?))) else {
            return Self::of(template, ground);
        };
        let mut scheduling = template.scheduling.clone();
        scheduling.node_selector.extend(class.scheduling.node_selector.clone());
        scheduling.tolerations.extend(class.scheduling.tolerations.iter().cloned());
        Ok(Self { template, scheduling, class: Some((name, class)) })
    }

    /// The same for a template as the DaemonSet controller sees it, which adds nothing.
    pub fn alone(template: &'a Template) -> Self {
        Self { template, scheduling: template.scheduling.clone(), class: None }
    }

    /// The system that the pod is for, as far as it is said.
    pub fn system(&self) -> Option<System> {
        self.template.system(|_| self.class.and_then(|(_, class)| class.system))
    }

    /// Whether it says that it is for Windows, or tolerates by name what a pool is tainted with.
    pub fn is_for_windows(&self, ground: &Ground) -> bool {
        match self.system() {
            Some(system) => system == System::Windows,
            None => ground.pools.iter().flat_map(|pool| &pool.taints).any(|taint| self.names(taint)),
        }
    }

    /// Whether a toleration of its own names a taint.
    fn names(&self, taint: &Taint) -> bool {
        let own = &self.template.scheduling.tolerations;
        own.iter()
            .any(|toleration| toleration.key.is_some() && toleration.tolerates(&taint.key, &taint.value, &taint.effect))
    }

    /// The nodes that it asks for by name.
    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.scheduling.node_selector.get(label::HOSTNAME).map(String::as_str).into_iter().chain(self.template.hosts())
    }

    /// What the selector and the affinity say of a label: the values that they name.
    pub fn asked<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        let required = self.template.affinity.iter().flatten().filter(move |requirement| requirement.key == key);
        let selected = self.scheduling.node_selector.get(key);
        selected.into_iter().chain(required.flat_map(|requirement| &requirement.values)).map(String::as_str)
    }

    /// Whether a node with these labels, on a host of this name, has all that the pod selects, whatever its taints. What
    /// is asked of a label that is not `known` is taken to hold.
    pub fn fits(&self, labels: &BTreeMap<String, String>, host: &str, known: impl Fn(&str) -> bool) -> bool {
        let mut selected = self.scheduling.node_selector.iter().filter(|(key, _)| known(key));
        selected.all(|(key, value)| labels.get(key) == Some(value)) && self.template.prefers(labels, host, &known)
    }

    /// What a node with these labels, on a host of this name, does not have of what the pod selects, with the same mercy
    /// as [`Self::fits`].
    pub fn missed(&self, labels: &BTreeMap<String, String>, host: &str, known: impl Fn(&str) -> bool) -> Vec<String> {
        let selected = self.scheduling.node_selector.iter();
        let mut missed: Vec<String> = selected
            .filter(|(key, value)| known(key) && labels.get(*key) != Some(value))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if !self.template.prefers(labels, host, known) {
            missed.push("its node affinity".to_owned());
        }
        missed
    }

    /// The first taint that keeps the pod off, if every kind of a place has one.
    pub fn barred<'k>(&self, kinds: &[&'k Kind]) -> Option<&'k Taint> {
        let taints: Option<Vec<_>> = kinds.iter().map(|kind| self.untolerated(&kind.taints)).collect();
        taints?.first().copied()
    }

    /// The taint that keeps the pod off.
    pub fn untolerated<'k>(&self, taints: &'k [Taint]) -> Option<&'k Taint> {
        let hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        hard.into_iter().find(|taint| !self.scheduling.tolerates(&taint.key, &taint.value, &taint.effect))
    }

    /// Whether the nodes of a kind have all that the pod selects, whatever their taints: those that it asks for by name,
    /// or else any.
    pub fn selects(&self, ground: &Ground, pool: &str, kind: &Kind) -> bool {
        let of_kind = |host: &&str| {
            let node = ground.node(host).filter(|node| node.pool.as_deref() == Some(pool));
            node.is_some_and(|node| node.kind.as_ref() == Some(kind))
        };
        let fits = |host| self.fits(&kind.labels_on(host), host, |key| kind.knows(key));
        fits("") || self.hosts().filter(of_kind).any(fits)
    }

    /// The places that the pod selects, whatever their taints; those of the pool that makes its class first.
    pub fn selected<'g>(&self, ground: &'g Ground) -> Vec<Place<'g>> {
        let kinds =
            |pool: &'g PoolGround| pool.kinds.iter().filter(|kind| self.selects(ground, &pool.name, kind)).collect();
        let places = ground.pools.iter().map(|pool| (pool, kinds(pool)));
        let mut places: Vec<Place<'g>> = places.filter(|(_, kinds): &Place<'g>| !kinds.is_empty()).collect();
        let makes_the_class =
            |pool: &PoolGround| self.class.is_some_and(|(class, _)| pool.classes.iter().any(|(name, _)| name == class));
        places.sort_by_key(|(pool, _)| !makes_the_class(pool));
        places
    }

    /// Whether Windows nodes outside the pools take the pod.
    pub fn is_at_home_elsewhere(&self, ground: &Ground) -> bool {
        let mut hosts = vec![""];
        hosts.extend(self.hosts());
        ground.outside.iter().any(|nodes| {
            let has_all = |host: &&str| {
                let mut labels = nodes.labels.clone();
                labels.insert(label::HOSTNAME.to_owned(), (*host).to_owned());
                self.fits(&labels, host, |key| !nodes.individual.contains(key))
            };
            self.untolerated(&nodes.taints).is_none() && hosts.iter().any(has_all)
        })
    }

    /// The places where the pod may land.
    ///
    /// # Errors
    /// What is in the way of the place that comes nearest.
    pub fn places<'g>(&self, ground: &'g Ground) -> Result<Vec<Place<'g>>, Obstacle> {
        let selected = self.selected(ground);
        if selected.is_empty() {
            return Err(self.nearest(ground));
        }
        let open = |(pool, kinds): &Place<'g>| {
            let kinds: Vec<_> = kinds.iter().copied().filter(|kind| self.untolerated(&kind.taints).is_none()).collect();
            (!kinds.is_empty()).then_some((*pool, kinds))
        };
        let tolerated: Vec<_> = selected.iter().filter_map(open).collect();
        let (handled, lacking): (Vec<_>, Vec<_>) =
            tolerated.into_iter().partition(|place| self.missing_handler(place).is_none());
        let obstacle = || match lacking.first() {
            Some(place) => self.missing_handler(place),
            None => self.first_taint(ground, &selected),
        };
        match handled.is_empty().then(obstacle).flatten() {
            Some(obstacle) => Err(obstacle),
            None => Ok(handled),
        }
    }

    /// The places where the pod may land if it is for Windows; none if it is not, or nothing takes it.
    pub fn destinations<'g>(&self, ground: &'g Ground) -> Vec<Place<'g>> {
        if self.is_for_windows(ground) { self.places(ground).unwrap_or_default() } else { Vec::new() }
    }

    /// What the nodes do not have that have most of what the pod selects.
    fn nearest(&self, ground: &Ground) -> Obstacle {
        let kinds = ground.pools.iter().flat_map(|pool| pool.kinds.iter().map(move |kind| (pool, kind)));
        let missed =
            kinds.map(|(pool, kind)| (&pool.name, self.missed(&kind.labels_on(""), "", |key| kind.knows(key))));
        let (pool, missed) = missed.min_by_key(|(_, missed)| missed.len()).unzip();
        Obstacle::Selector {
            pool: pool.cloned().unwrap_or_default(),
            missed: missed.unwrap_or_default().into_iter().next().unwrap_or_default(),
        }
    }

    /// The class that a DaemonSet relies on to select its nodes, of which its controller knows nothing, and what its
    /// template lacks of the selector of the class; `meant` is what it selects with the class. A template that selects the
    /// same nodes in its own words relies on nothing.
    pub fn relied_on(&self, ground: &Ground, meant: &[Place<'_>]) -> Option<(&str, Vec<String>)> {
        let (name, class) = self.class?;
        let own = &self.template.scheduling.node_selector;
        let selected = class.scheduling.node_selector.iter();
        let missing: Vec<_> = selected.filter(|(key, value)| own.get(*key) != Some(value)).collect();
        let kinds = |places: &[Place<'_>]| places.iter().map(|(_, kinds)| kinds.len()).sum::<usize>();
        // Nodes with and without a label of which nobody knows cannot be told apart.
        let told_apart = || {
            let mut kinds = meant.iter().flat_map(|(_, kinds)| kinds);
            kinds.all(|kind| missing.iter().all(|(key, _)| kind.knows(key)))
        };
        let picks_the_same = || {
            let alone = Self::alone(self.template);
            self.template.selects_some_nodes() && told_apart() && kinds(&alone.selected(ground)) == kinds(meant)
        };
        let enough = missing.is_empty() || picks_the_same();
        (!enough).then(|| (name, missing.into_iter().map(|(key, value)| format!("{key}={value}")).collect()))
    }

    fn first_taint(&self, ground: &Ground, selected: &[Place<'_>]) -> Option<Obstacle> {
        let all = selected.iter().flat_map(|(pool, kinds)| kinds.iter().map(move |kind| (*pool, *kind)));
        let (pool, taint) = all.filter_map(|(pool, kind)| Some((pool, self.untolerated(&kind.taints)?))).next()?;
        let class = pool.classes.iter().map(|(class, _)| class).find(|class| ground.classes.contains_key(*class));
        let class = class.filter(|_| self.class.is_none()).cloned();
        Some(Obstacle::Taint { pool: pool.name.clone(), taint: taint.clone(), class })
    }

    /// The handler that the nodes of a place do not have.
    fn missing_handler(&self, (pool, kinds): &Place<'_>) -> Option<Obstacle> {
        let (name, class) = self.class?;
        let available = kinds.iter().filter_map(|kind| kind.handlers).next()?;
        let missing = HANDLERS.contains(&class.handler.as_str())
            && kinds.iter().all(|kind| kind.handlers.is_some_and(|own| !own.contains(&class.handler.as_str())));
        missing.then(|| Obstacle::Handler {
            pool: pool.name.clone(),
            class: name.to_owned(),
            handler: class.handler.clone(),
            available: available.iter().map(|handler| (*handler).to_owned()).collect(),
        })
    }
}

impl fmt::Display for Obstacle {
    /// What is in the way, and the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass { class, known } if known.is_empty() => {
                write!(f, "there is no RuntimeClass {class}: create it, or remove runtimeClassName")
            }
            Self::NoClass { class, known } => {
                write!(f, "there is no RuntimeClass {class}: name one of {}", known.join(", "))
            }
            Self::Conflict { class, of_class, own } => write!(
                f,
                "it selects {own} and RuntimeClass {class} selects {of_class}, so it is refused: remove one of the two"
            ),
            Self::Selector { pool, missed } => {
                write!(f, "no node has all that it selects, those of pool {pool} not {missed}: correct the selector")
            }
            Self::Taint { pool, taint, class: Some(class) } => write!(
                f,
                "it does not tolerate {taint} of pool {pool}: add the toleration, or runtimeClassName: {class}"
            ),
            Self::Taint { pool, taint, class: None } => {
                write!(f, "it does not tolerate {taint} of pool {pool}: add the toleration")
            }
            Self::Handler { pool, class, handler, available } => write!(
                f,
                "the container runtime of pool {pool} has no handler {handler} of RuntimeClass {class}, only {}: use a class with one of these",
                available.join(", ")
            ),
        }
    }
}
