//! The age of the tables of facts, in `/metrics`.
//!
//! The values are days and do not change; alert on `time() > winpool_facts_old_from_timestamp_seconds`.

use jiff::{civil::Date, tz::TimeZone};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use winpool_core::tables;
use winpool_facts::{TABLES, support};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabel {
    table: &'static str,
}

/// Registers the day of the sources of every table, and the day from which the first table counts as old.
pub(super) fn register(registry: &mut Registry) {
    let as_of = Family::<TableLabel, Gauge>::default();
    for table in TABLES {
        as_of.get_or_create(&TableLabel { table: table.name }).set(seconds(table.as_of));
    }
    let old_from: Gauge = Gauge::default();
    old_from.set(tables::old_from().map_or(0, seconds));
    let unit = || Unit::Other("timestamp_seconds".to_owned());
    registry.register_with_unit("facts_as_of", "The day of the newest source of a table of facts", unit(), as_of);
    let newest: Gauge = Gauge::default();
    newest.set(support::NEWEST.0.into());
    registry.register("facts_newest_minor", "The newest minor of Kubernetes 1 in the tables of facts", newest);
    registry.register_with_unit("facts_old_from", "The day from which the tables of facts are old", unit(), old_from);
}

/// The start of a day, in seconds since 1970.
pub(super) fn seconds(day: Date) -> i64 {
    day.to_zoned(TimeZone::UTC).map_or(0, |start| start.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_exported_as_its_first_second() {
        assert_eq!(seconds(jiff::civil::date(2026, 8, 22)), 1_787_356_800);
    }

    #[test]
    fn every_table_has_a_metric_with_its_day() {
        let mut registry = Registry::with_prefix("winpool");
        register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for table in TABLES {
            let name = table.name;
            let line = format!("winpool_facts_as_of_timestamp_seconds{{table=\"{name}\"}} {}", seconds(table.as_of));
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let old_from = format!("winpool_facts_old_from_timestamp_seconds {}", seconds(tables::old_from().unwrap()));
        assert!(text.lines().any(|found| found == old_from), "{old_from} is not in\n{text}");
        assert!(text.lines().any(|found| found == "winpool_facts_newest_minor 37"), "{text}");
    }
}
