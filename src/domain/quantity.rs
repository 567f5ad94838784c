//! Placeholder until branch `kubelet` replaces this file: keep the signatures that `domain::pool` calls.
use std::str::FromStr;
/// q
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i64);
impl Quantity {
    /// m
    pub fn milli(&self) -> i64 {
        self.0
    }
    /// b
    pub fn bytes(&self) -> i64 {
        self.0 / 1000
    }
}
impl FromStr for Quantity {
    type Err = ();
    fn from_str(t: &str) -> Result<Self, ()> {
        let i = t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
        let n: i64 = t[..i].parse().map_err(|_| ())?;
        Ok(Self(
            n * match &t[i..] {
                "m" => 1,
                "" => 1000,
                "Mi" => 1000 * 1024 * 1024,
                "Gi" => 1000 * 1024 * 1024 * 1024,
                "Ki" => 1000 * 1024,
                _ => return Err(()),
            },
        ))
    }
}
impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}m", self.0)
    }
}
