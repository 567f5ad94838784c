//! Notices about versions that are newer than the tables of facts, and about old tables.

use jiff::civil::Date;
use winpool_facts::{MONTHS_UNTIL_OLD, Minor, TABLES, Table, support};

/// The notice about a minor that is newer than the tables.
pub fn not_checked(minor: Minor, today: Date) -> Option<String> {
    let newest = support::treated_as(minor)?;
    let released = support::released(Minor(newest.0 + 1)).filter(|day| *day < today);
    let age = released.map_or_else(String::new, |day| format!(". They were known good until {}", ago(day, today)));
    Some(format!(
        "the tables of this winpool end at Kubernetes {newest}, so {minor} is treated as {newest}, its feature gates too{age}. \
         Upgrade winpool"
    ))
}

/// Until when the tables are known good: a line for each that no longer is, and one for the others.
pub fn known_good(today: Date) -> String {
    let (past, others): (Vec<_>, Vec<_>) = TABLES.iter().partition(|table| table.good_until() < today);
    let line = |table: &Table| format!("{} was known good until {}\n", table.name, ago(table.good_until(), today));
    let until = others.into_iter().map(Table::good_until).min();
    let which = if past.is_empty() { "The" } else { "The other" };
    let others = until.map(|day| format!("{which} tables are known good until {day}\n"));
    past.into_iter().map(line).chain(others).collect()
}

fn ago(day: Date, today: Date) -> String {
    let days = (today - day).get_days();
    format!("{day}, {days} day{} ago", if days == 1 { "" } else { "s" })
}

/// The first day on which a table is old.
pub fn old_from() -> Option<Date> {
    TABLES.iter().map(Table::old_from).min()
}

/// The notice about old tables.
pub fn old(today: Date) -> Option<String> {
    let oldest = TABLES.iter().min_by_key(|table| table.as_of)?;
    let names = TABLES.iter().filter(|table| table.old_from() <= today).map(|table| table.name).collect::<Vec<_>>();
    (!names.is_empty()).then(|| {
        format!(
            "tables of this winpool are more than {MONTHS_UNTIL_OLD} months old, the oldest from {}: {}. Upgrade winpool",
            oldest.as_of,
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use jiff::{ToSpan, civil::date};

    use super::*;

    #[test]
    fn only_a_minor_newer_than_the_tables_is_not_checked() {
        let (newest, today) = (support::NEWEST, date(2026, 12, 16));
        assert_eq!(not_checked(newest, today), None);
        assert_eq!(not_checked(support::OLDEST, today), None);
        let next = |today| not_checked(Minor(newest.0 + 1), today).unwrap();
        assert_eq!(
            next(today),
            "the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37, its feature gates too. Upgrade winpool"
        );
        assert_eq!(
            next(date(2026, 12, 17)),
            "the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37, its feature gates too. \
             They were known good until 2026-12-16, 1 day ago. Upgrade winpool"
        );
    }

    #[test]
    fn each_table_that_is_no_longer_known_good_has_a_line_with_its_age() {
        let first = TABLES.iter().map(Table::good_until).min().unwrap();
        assert_eq!(known_good(first), format!("The tables are known good until {first}\n"));
        assert_eq!(
            known_good(date(2026, 12, 10)),
            "windows_updates was known good until 2026-12-08, 2 days ago\n\
             The other tables are known good until 2026-12-16\n"
        );
        assert_eq!(known_good(date(2030, 1, 1)).lines().count(), TABLES.len());
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
