//! The maintenance windows of a pool: when nodes may begin to change. The words are those of others: `schedule` and `timeZone` of a
//! CronJob, `duration` of the budgets of Karpenter, and windows that allow, as the planned maintenance of AKS, not that forbid.

use cronexpr::Crontab;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use winpool_api::{Delivery, DeliveryMethod, MaintenanceWindow, pattern};
use winpool_core::{Problem, text::did_you_mean};

use super::check::up_to_a_day;

const PATH: &str = "spec.delivery.maintenanceWindows";

/// The parsed windows; nodes may always change without any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaintenanceWindows(Vec<Window>);

#[derive(Clone, Debug)]
struct Window {
    written: MaintenanceWindow,
    schedule: Crontab,
    duration: SignedDuration,
}

impl PartialEq for Window {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

/// Whether nodes may begin to change now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Maintenance {
    /// The pool has no windows.
    #[default]
    Always,
    Open {
        /// When the first of the open windows ends.
        until: Timestamp,
    },
    Closed {
        /// When the next window begins.
        until: Timestamp,
    },
}

impl Maintenance {
    /// When nodes may begin to change, if that is not now.
    pub fn awaited(self) -> Option<Timestamp> {
        match self {
            Self::Closed { until } => Some(until),
            Self::Always | Self::Open { .. } => None,
        }
    }

    /// When it may be another one.
    pub fn changes(self) -> Option<Timestamp> {
        match self {
            Self::Always => None,
            Self::Open { until } | Self::Closed { until } => Some(until),
        }
    }
}

impl MaintenanceWindows {
    /// Parses the windows of a delivery. A window that never begins is a problem.
    pub fn parse(delivery: &Delivery, problems: &mut Vec<Problem>) -> Self {
        let windows = &delivery.maintenance_windows;
        if delivery.method == DeliveryMethod::None && !windows.is_empty() {
            let remedy = "write method: Agent or ClusterAPI, or remove maintenanceWindows";
            problems.push(Problem::new(PATH, "without a delivery by winpool, windows have no effect", remedy));
        }
        let parsed = windows.iter().enumerate();
        Self(parsed.filter_map(|(index, window)| parse(&format!("{PATH}[{index}]"), window, problems)).collect())
    }

    /// Whether nodes may begin to change at a time.
    pub fn at(&self, now: Timestamp) -> Maintenance {
        // The first begin that is not over decides about a window: it is open since then, or begins then.
        let begins = self.0.iter().filter_map(|window| Some((window, window.begin_after(now - window.duration)?)));
        let (open, later): (Vec<_>, Vec<_>) = begins.partition(|(_, begin)| *begin <= now);
        let ends = open.into_iter().map(|(window, begin)| begin + window.duration).min();
        match (ends, later.into_iter().map(|(_, begin)| begin).min()) {
            _ if self.0.is_empty() => Maintenance::Always,
            (Some(until), _) => Maintenance::Open { until },
            (None, begin) => Maintenance::Closed { until: begin.unwrap_or(Timestamp::MAX) },
        }
    }
}

impl Window {
    fn begin_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.find_next(time).ok().map(|begin| begin.timestamp())
    }
}

fn parse(path: &str, written: &MaintenanceWindow, problems: &mut Vec<Problem>) -> Option<Window> {
    let duration = up_to_a_day(&format!("{path}.duration"), &written.duration, problems);
    let schedule = zone(&format!("{path}.timeZone"), &written.time_zone)
        .and_then(|()| schedule(&format!("{path}.schedule"), written))
        .map_err(|problem| problems.push(problem));
    Some(Window { written: written.clone(), schedule: schedule.ok()?, duration: duration? })
}

/// The schedule in its time zone, which exists.
fn schedule(path: &str, written: &MaintenanceWindow) -> Result<Crontab, Problem> {
    let MaintenanceWindow { schedule, time_zone, .. } = written;
    let crontab = cronexpr::parse_crontab(&format!("{schedule} {time_zone}")).map_err(|_| {
        let wrong = format!("{schedule:?} is not {}", pattern::CRON.description);
        Problem::new(path, wrong, pattern::CRON.remedy)
    })?;
    // Any year will do: cronexpr looks four years ahead, which have a 29th of February.
    match crontab.find_next(Timestamp::UNIX_EPOCH) {
        Ok(_) => Ok(crontab),
        Err(_) => Err(Problem::new(path, format!("{schedule:?} never begins"), "write a day that its months have")),
    }
}

fn zone(path: &str, name: &str) -> Result<(), Problem> {
    if TimeZone::get(name).is_ok() {
        return Ok(());
    }
    let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect();
    let similar = did_you_mean(name, known.iter().map(String::as_str));
    let wrong = format!("{name:?} is not {}", pattern::TIME_ZONE.description);
    Err(Problem::new(path, wrong, format!("{similar}{}", pattern::TIME_ZONE.remedy)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn windows(written: &Value) -> Result<MaintenanceWindows, Vec<String>> {
        let delivery = json!({"method": "Agent", "maintenanceWindows": written});
        let mut problems = Vec::new();
        let windows = MaintenanceWindows::parse(&serde_json::from_value(delivery).unwrap(), &mut problems);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(windows) } else { Err(problems) }
    }

    fn window(schedule: &str, duration: &str, zone: &str) -> Value {
        json!({"schedule": schedule, "duration": duration, "timeZone": zone})
    }

    #[test]
    fn windows_are_open_from_each_begin_for_their_duration_in_their_time_zone() {
        let saturday = window("0 22 * * SAT", "6h", "Europe/Berlin");
        let nights = json!([window("0 1 * * MON-FRI", "30m", "UTC"), saturday]);
        let overlapping = json!([window("0 * * * *", "90m", "UTC")]);
        let skipped = json!([window("30 2 * * *", "1h", "Europe/Berlin")]);
        // 2026-06-06 is a Saturday. Summer time begins in Berlin on 2026-03-29 at 02:00, and ends on 2026-10-25 at 03:00.
        let table = [
            (json!([]), "2026-06-06T12:00:00Z", "always"),
            (json!([saturday]), "2026-06-06T19:59:59Z", "closed until 2026-06-06T20:00:00Z"),
            (json!([saturday]), "2026-06-06T20:00:00Z", "open until 2026-06-07T02:00:00Z"),
            (json!([saturday]), "2026-06-07T01:59:59Z", "open until 2026-06-07T02:00:00Z"),
            (json!([saturday]), "2026-06-07T02:00:00Z", "closed until 2026-06-13T20:00:00Z"),
            (json!([saturday]), "2026-12-05T12:00:00Z", "closed until 2026-12-05T21:00:00Z"),
            (nights.clone(), "2026-06-05T01:10:00Z", "open until 2026-06-05T01:30:00Z"),
            (nights, "2026-06-05T02:00:00Z", "closed until 2026-06-06T20:00:00Z"),
            (overlapping, "2026-06-05T02:10:00Z", "open until 2026-06-05T02:30:00Z"),
            (json!([window("0 0 29 2 *", "1h", "UTC")]), "2026-06-05T00:00:00Z", "closed until 2028-02-29T00:00:00Z"),
            (
                json!([window("0 0 1 JAN,12 *", "1h", "UTC")]),
                "2026-06-05T00:00:00Z",
                "closed until 2026-12-01T00:00:00Z",
            ),
            (skipped, "2026-03-28T12:00:00Z", "closed until 2026-03-30T00:30:00Z"),
        ];
        for (written, now, expected) in table {
            let found = match windows(&written).unwrap().at(now.parse().unwrap()) {
                Maintenance::Always => "always".to_owned(),
                Maintenance::Open { until } => format!("open until {until}"),
                Maintenance::Closed { until } => format!("closed until {until}"),
            };
            assert_eq!(found, expected, "{written} at {now}");
        }
    }

    #[test]
    fn the_problems_of_a_window_have_its_path_and_a_remedy() {
        let table = [
            (window("0 22 * *", "6h", "UTC"), "schedule: \"0 22 * *\" is not a cron expression"),
            (window("0 24 * * *", "6h", "UTC"), "schedule: \"0 24 * * *\" is not a cron expression"),
            (window("0 22 30 FEB *", "6h", "UTC"), "schedule: \"0 22 30 FEB *\" never begins: write a day"),
            (window("0 22 * * *", "25h", "UTC"), "duration: \"25h\" is not a duration between 1m and 24h"),
            (
                window("0 22 * * *", "6h", "Europe/Berlinn"),
                "timeZone: \"Europe/Berlinn\" is not the name of a time zone: did you mean Europe/Berlin? Otherwise",
            ),
        ];
        for (written, expected) in table {
            let expected = format!("{PATH}[1].{expected}");
            let found = windows(&json!([window("0 1 * * *", "1h", "UTC"), written])).unwrap_err();
            assert!(matches!(&found[..], [one] if one.starts_with(&expected)), "{found:?}");
        }
    }
}
