//! Notices about versions that are newer than the tables of facts, and about old tables.

use jiff::{ToSpan, civil::Date};
use winpool_facts::{Minor, TABLES, support};

/// The age in months at which a table is old.
pub const MONTHS_UNTIL_OLD: i32 = 9;

/// The notice about a minor that is newer than the tables.
pub fn not_checked(minor: Minor) -> Option<String> {
    let newest = support::treated_as(minor)?;
    Some(format!(
        "the tables of this winpool end at Kubernetes {newest}, so {minor} is treated as {newest}, its feature gates too. \
         Upgrade winpool"
    ))
}

/// The first day on which a table is old.
pub fn old_from() -> Option<Date> {
    TABLES.iter().filter_map(|table| table.as_of.checked_add(MONTHS_UNTIL_OLD.months()).ok()).min()
}

/// The notice about old tables.
pub fn old(today: Date) -> Option<String> {
    let oldest = TABLES.iter().min_by_key(|table| table.as_of)?;
    let names = TABLES.iter().filter(|table| is_old(table.as_of, today)).map(|table| table.name).collect::<Vec<_>>();
    (!names.is_empty()).then(|| {
        format!(
            "tables of this winpool are more than {MONTHS_UNTIL_OLD} months old, the oldest from {}: {}. Upgrade winpool",
            oldest.as_of,
            names.join(", ")
        )
    })
}

fn is_old(as_of: Date, today: Date) -> bool {
    as_of.checked_add(MONTHS_UNTIL_OLD.months()).is_ok_and(|limit| today >= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_minor_newer_than_the_tables_is_not_checked() {
        let newest = support::NEWEST;
        assert_eq!(not_checked(newest), None);
        assert_eq!(not_checked(support::OLDEST), None);
        let text = not_checked(Minor(newest.0 + 1)).unwrap();
        assert!(text.contains(&format!("end at Kubernetes {newest}")), "{text}");
    }

    #[test]
    fn tables_are_old_nine_months_after_the_day_of_their_sources() {
        let oldest = TABLES.iter().map(|table| table.as_of).min().unwrap();
        let limit = old_from().unwrap();
        assert_eq!(limit, oldest.checked_add(9.months()).unwrap());
        assert_eq!(old(limit.yesterday().unwrap()), None);
        let notice = old(limit).unwrap();
        let table = TABLES.iter().find(|table| table.as_of == oldest).unwrap();
        assert!(notice.contains(table.name) && notice.contains(&oldest.to_string()), "{notice}");
        let newest = TABLES.iter().map(|table| table.as_of).max().unwrap();
        let all = old(newest.checked_add(9.months()).unwrap()).unwrap();
        assert!(TABLES.iter().all(|table| all.contains(table.name)), "{all}");
    }
}
