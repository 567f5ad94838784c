//! The monthly updates of Windows Server from 2023 on, without hotpatches: the month and the KB article of each revision.
//!
//! Sources: altrhombus/DataForGeeks, `content/ms/win/buildnumbers.json` (2026-08-12); Microsoft's CVRF documents in
//! MaineK00n/msrc-cvrf-watch, `data/20260706T222806Z`; future-architect/vuls, `scanner/windows.go` (2026-08-04); Azure/AgentBaker,
//! `vhdbuilder/release-notes/AKSWindows` (2026-08-21); CVEProject/cvelistV5 (2026-11-24), which alone has October and November 2026,
//! without KB articles; that of 20348.5761 is in gclouds-co-uk/SQL-Server-2022-Developer. 184 of the 189 rows are in at least two of them; the
//! others were read again in two CVE records each, but 20348.5761 in one, and no record has November for 26100 (2026-11-29). For 20348.4297 and 26100.6905 the table has the cumulative
//! updates, not the standalone packages of CVRF; 26100.8655, which CVRF has for Windows Server 2025, is of Windows 11.

use std::fmt;

use super::{Build, OsVersion};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    pub revision: u32,
    pub month: (u16, u8),
    pub article: Option<u32>,
}

/// A row of [`UPDATES`]; article 0 stands for an unknown one.
const fn row(revision: u32, year: u16, month: u8, article: u32) -> Update {
    let article = if article == 0 { None } else { Some(article) };
    Update { revision, month: (year, month), article }
}

pub(super) const COUNT: usize = {
    let (mut count, mut build) = (0, 0);
    while build < UPDATES.len() {
        count += UPDATES[build].1.len();
        build += 1;
    }
    count
};

/// The updates of each build, oldest first.
#[rustfmt::skip]
pub const UPDATES: &[(Build, &[Update])] = &[
    (Build(17763), &[
        row(3887, 2023, 1, 5022286), row(4010, 2023, 2, 5022840), row(4131, 2023, 3, 5023702),
        row(4252, 2023, 4, 5025229), row(4377, 2023, 5, 5026362), row(4499, 2023, 6, 5027222),
        row(4645, 2023, 7, 5028168), row(4737, 2023, 8, 5029247), row(4851, 2023, 9, 5030214),
        row(4974, 2023, 10, 5031361), row(5122, 2023, 11, 5032196), row(5206, 2023, 12, 5033371),
        row(5329, 2024, 1, 5034127), row(5458, 2024, 2, 5034768), row(5576, 2024, 3, 5035849),
        row(5579, 2024, 3, 5037425), row(5696, 2024, 4, 5036896), row(5820, 2024, 5, 5037765),
        row(5830, 2024, 5, 5039705), row(5936, 2024, 6, 5039217), row(6054, 2024, 7, 5040430),
        row(6189, 2024, 8, 5041578), row(6293, 2024, 9, 5043050), row(6414, 2024, 10, 5044277),
        row(6532, 2024, 11, 5046615), row(6659, 2024, 12, 5048661), row(6775, 2025, 1, 5050008),
        row(6893, 2025, 2, 5052000), row(7009, 2025, 3, 5053596), row(7136, 2025, 4, 5055519),
        row(7240, 2025, 4, 5058922), row(7249, 2025, 4, 5059091), row(7314, 2025, 5, 5058392),
        row(7322, 2025, 5, 5061978), row(7434, 2025, 6, 5060531), row(7558, 2025, 7, 5062557),
        row(7678, 2025, 8, 5063877), row(7683, 2025, 8, 5066187), row(7792, 2025, 9, 5065428),
        row(7919, 2025, 10, 5066586), row(7922, 2025, 10, 5070883), row(8027, 2025, 11, 5068791),
        row(8146, 2025, 12, 5071544), row(8148, 2025, 12, 5074975), row(8276, 2026, 1, 5073723),
        row(8280, 2026, 1, 5077795), row(8281, 2026, 1, 5078131), row(8389, 2026, 2, 5075904),
        row(8511, 2026, 3, 5078752), row(8644, 2026, 4, 5082123), row(8647, 2026, 4, 5091573),
        row(8755, 2026, 5, 5087538), row(8880, 2026, 6, 5094123), row(9020, 2026, 7, 5099538),
        row(9121, 2026, 8, 5120238), row(9245, 2026, 9, 5122876), row(9247, 2026, 9, 5129238),
        row(9376, 2026, 10, 0), row(9487, 2026, 11, 0),
    ]),
    (Build(20348), &[
        row(1487, 2023, 1, 5022291), row(1547, 2023, 2, 5022842), row(1607, 2023, 3, 5023705),
        row(1668, 2023, 4, 5025230), row(1726, 2023, 5, 5026370), row(1787, 2023, 6, 5027225),
        row(1850, 2023, 7, 5028171), row(1906, 2023, 8, 5029250), row(1970, 2023, 9, 5030216),
        row(2031, 2023, 10, 5031364), row(2113, 2023, 11, 5032198), row(2159, 2023, 12, 5033118),
        row(2227, 2024, 1, 5034129), row(2322, 2024, 2, 5034770), row(2340, 2024, 3, 5035857),
        row(2342, 2024, 3, 5037422), row(2402, 2024, 4, 5036909), row(2461, 2024, 5, 5037782),
        row(2527, 2024, 6, 5039227), row(2529, 2024, 6, 5041054), row(2582, 2024, 7, 5040437),
        row(2655, 2024, 8, 5041160), row(2700, 2024, 9, 5042881), row(2762, 2024, 10, 5044281),
        row(2849, 2024, 11, 5046616), row(2966, 2024, 12, 5048654), row(3091, 2025, 1, 5049983),
        row(3207, 2025, 2, 5051979), row(3328, 2025, 3, 5053603), row(3453, 2025, 4, 5055526),
        row(3561, 2025, 4, 5058920), row(3566, 2025, 4, 5059092), row(3692, 2025, 5, 5058385),
        row(3695, 2025, 5, 5061906), row(3807, 2025, 6, 5060526), row(3932, 2025, 7, 5062572),
        row(4052, 2025, 8, 5063880), row(4171, 2025, 9, 5065432), row(4294, 2025, 10, 5066782),
        row(4297, 2025, 10, 5070884), row(4405, 2025, 11, 5068787), row(4529, 2025, 12, 5071547),
        row(4648, 2026, 1, 5073457), row(4650, 2026, 1, 5077800), row(4651, 2026, 1, 5078136),
        row(4773, 2026, 2, 5075906), row(4776, 2026, 3, 5082314), row(4893, 2026, 3, 5078766),
        row(5020, 2026, 4, 5082142), row(5024, 2026, 4, 5091575), row(5139, 2026, 5, 5087545),
        row(5256, 2026, 6, 5094128), row(5386, 2026, 7, 5099540), row(5499, 2026, 8, 5120242),
        row(5622, 2026, 9, 5122882), row(5631, 2026, 9, 5129237), row(5761, 2026, 10, 5126655),
        row(5870, 2026, 11, 0),
    ]),
    (Build(25398), &[
        row(531, 2023, 11, 5032202), row(584, 2023, 12, 5033383), row(643, 2024, 1, 5034130),
        row(709, 2024, 2, 5034769), row(763, 2024, 3, 5035856), row(830, 2024, 4, 5036910),
        row(887, 2024, 5, 5037781), row(950, 2024, 6, 5039236), row(1009, 2024, 7, 5040438),
        row(1085, 2024, 8, 5041573), row(1128, 2024, 9, 5043055), row(1189, 2024, 10, 5044288),
        row(1251, 2024, 11, 5046618), row(1308, 2024, 12, 5048653), row(1369, 2025, 1, 5049984),
        row(1425, 2025, 2, 5051980), row(1486, 2025, 3, 5053599), row(1551, 2025, 4, 5055527),
        row(1611, 2025, 5, 5058384), row(1665, 2025, 6, 5060118), row(1668, 2025, 7, 5063774),
        row(1732, 2025, 7, 5062570), row(1791, 2025, 8, 5063899), row(1849, 2025, 9, 5065425),
        row(1913, 2025, 10, 5066780), row(1916, 2025, 10, 5070879), row(1965, 2025, 11, 5068779),
        row(2025, 2025, 12, 5071542), row(2092, 2026, 1, 5073450), row(2096, 2026, 1, 5077792),
        row(2097, 2026, 1, 5078133), row(2149, 2026, 2, 5075897), row(2207, 2026, 3, 5078734),
        row(2274, 2026, 4, 5082060), row(2276, 2026, 4, 5091571), row(2330, 2026, 5, 5087541),
    ]),
    (Build(26100), &[
        row(2033, 2024, 10, 5044284), row(2314, 2024, 11, 5046617), row(2605, 2024, 12, 5048667),
        row(2894, 2025, 1, 5050009), row(3194, 2025, 2, 5051987), row(3476, 2025, 3, 5053598),
        row(3775, 2025, 4, 5055523), row(3781, 2025, 4, 5059087), row(4061, 2025, 5, 5058411),
        row(4066, 2025, 5, 5061977), row(4349, 2025, 6, 5060842), row(4652, 2025, 7, 5062553),
        row(4656, 2025, 7, 5064489), row(4946, 2025, 8, 5063878), row(6584, 2025, 9, 5065426),
        row(6588, 2025, 9, 5068221), row(6899, 2025, 10, 5066835), row(6901, 2025, 10, 5070773),
        row(6905, 2025, 10, 5070881), row(7171, 2025, 11, 5068861), row(7178, 2025, 11, 5072359),
        row(7462, 2025, 12, 5072033), row(32230, 2026, 1, 5073379), row(32234, 2026, 1, 5077793),
        row(32236, 2026, 1, 5078135), row(32370, 2026, 2, 5075899), row(32522, 2026, 3, 5078740),
        row(32690, 2026, 4, 5082063), row(32698, 2026, 4, 5091157), row(32860, 2026, 5, 5087539),
        row(32995, 2026, 6, 5094125), row(33158, 2026, 7, 5099536), row(33296, 2026, 8, 5120233),
        row(33438, 2026, 9, 5122871), row(33451, 2026, 9, 5129235), row(33650, 2026, 10, 0),
    ]),
];

/// The update that installs this revision; `None` if the table does not have it.
pub fn update(version: OsVersion) -> Option<&'static Update> {
    let (_, updates) = UPDATES.iter().find(|(build, _)| *build == version.build)?;
    updates.iter().find(|update| Some(update.revision) == version.revision)
}

impl fmt::Display for Update {
    /// `2024-04, KB5036909`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month) = self.month;
        write!(f, "{year}-{month:02}")?;
        self.article.map_or(Ok(()), |article| write!(f, ", KB{article}"))
    }
}

/// A version with its update, such as `10.0.20348.2402 (2024-04, KB5036909)`.
pub fn described(version: OsVersion) -> String {
    match update(version) {
        Some(update) => format!("{version} ({update})"),
        None => version.to_string(),
    }
}

/// How far a revision is behind the newest update of its build. Orders the oldest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Behind {
    /// The monthly updates since. Several updates of a month count as one.
    pub updates: u32,
    /// The month of the revision; `None` if it is older than the table, so that there are more updates.
    pub month: Option<(u16, u8)>,
}

/// How far a version is behind the newest update in the table; `None` if the table does not have its build, or no revision is given.
pub fn behind(version: OsVersion) -> Option<Behind> {
    let (_, updates) = UPDATES.iter().find(|(build, _)| *build == version.build)?;
    let revision = version.revision?;
    let month = updates.iter().rfind(|update| update.revision <= revision).map(|update| update.month);
    let mut later: Vec<_> = updates.iter().map(|update| update.month).filter(|own| Some(*own) > month).collect();
    later.dedup();
    Some(Behind { updates: u32::try_from(later.len()).unwrap_or(u32::MAX), month })
}

impl fmt::Display for Behind {
    /// `of 2025-12, 11 updates behind`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { updates, month } = self;
        match month {
            Some((year, month)) => {
                write!(f, "of {year}-{month:02}, {updates} update{} behind", if *updates == 1 { "" } else { "s" })
            }
            None => write!(f, "more than {updates} updates behind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_described_with_the_month_and_the_article_of_its_update() {
        let table = [
            ("10.0.17763.3887", "10.0.17763.3887 (2023-01, KB5022286)"),
            ("10.0.20348.5870", "10.0.20348.5870 (2026-11)"),
            ("10.0.20348.1", "10.0.20348.1"),
            ("10.0.20348", "10.0.20348"),
            ("10.0.14393.7000", "10.0.14393.7000"),
        ];
        for (version, expected) in table {
            assert_eq!(described(version.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_version_is_behind_by_the_months_with_later_updates_of_its_build() {
        let table = [
            // The last row of the table, and what is newer than it.
            ("10.0.20348.5870", Some("of 2026-11, 0 updates behind")),
            ("10.0.20348.9999", Some("of 2026-11, 0 updates behind")),
            ("10.0.20348.5761", Some("of 2026-10, 1 update behind")),
            ("10.0.20348.4529", Some("of 2025-12, 11 updates behind")),
            // Between two rows: the month of the earlier one.
            ("10.0.20348.4530", Some("of 2025-12, 11 updates behind")),
            // January 2026 has three updates.
            ("10.0.20348.4648", Some("of 2026-01, 10 updates behind")),
            ("10.0.20348.4651", Some("of 2026-01, 10 updates behind")),
            ("10.0.17763.1", Some("more than 47 updates behind")),
            ("10.0.20348", None),
            ("10.0.14393.7000", None),
            ("10.0.99999.1", None),
        ];
        for (version, expected) in table {
            let found = behind(version.parse().unwrap()).map(|behind| behind.to_string());
            assert_eq!(found.as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn a_later_revision_is_not_of_an_earlier_month() {
        for (build, updates) in UPDATES {
            assert!(updates.is_sorted_by(|a, b| a.revision < b.revision && a.month <= b.month), "{build}");
        }
    }
}
