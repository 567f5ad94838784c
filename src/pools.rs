//! Names of pools as typed.

use winpool_core::text::{closest, some_of};

use super::CommandError;

/// Fails if a pool does not exist, with the name of one that was probably meant. `place` is where the names were typed,
/// such as `--pool: `.
pub(super) fn check_names<'n>(
    place: &str,
    typed: impl IntoIterator<Item = &'n str>,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> Result<(), CommandError> {
    let exists = |name: &&str| known.clone().into_iter().any(|known| known == *name);
    let unknown: Vec<&str> = typed.into_iter().filter(|name| !exists(name)).collect();
    let Some(first) = unknown.first() else { return Ok(()) };
    let similar = closest(first, known.clone()).map(|known| format!("Did you mean {known}? ")).unwrap_or_default();
    let text = format!("{place}there is no WindowsNodePool {}. {similar}See kubectl get wnp", some_of(unknown));
    Err(CommandError::Usage(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_pool_is_a_usage_error_with_a_similar_name() {
        let table: [(&[&str], Option<&str>); 4] = [
            (&["web", "batch"], None),
            (&["wbe"], Some("--pool: there is no WindowsNodePool wbe. Did you mean web? See kubectl get wnp")),
            (&["web", "x"], Some("--pool: there is no WindowsNodePool x. See kubectl get wnp")),
            (
                &["batc", "y"],
                Some("--pool: there is no WindowsNodePool batc, y. Did you mean batch? See kubectl get wnp"),
            ),
        ];
        for (typed, expected) in table {
            let expected = expected.map_or(Ok(()), |text| Err(CommandError::Usage(text.to_owned())));
            assert_eq!(check_names("--pool: ", typed.iter().copied(), ["batch", "web"]), expected);
        }
    }
}
