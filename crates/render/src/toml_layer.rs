//! A partial TOML file that is merged into another one.

use toml::Table;

/// Merges tables recursively. Other values are replaced.
///
/// # Errors
/// The path of an entry that is a table in only one of the two: containerd accepts only one of them. The table may be changed in part.
pub fn merge(table: &mut Table, layer: &Table) -> Result<(), String> {
    for (name, value) in layer {
        match (table.get_mut(name), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(layer)) => {
                merge(inner, layer).map_err(|path| format!("{name}.{path}"))?;
            }
            (Some(old), new) if old.is_table() != new.is_table() => return Err(name.clone()),
            (_, new) => drop(table.insert(name.clone(), new.clone())),
        }
    }
    Ok(())
}
