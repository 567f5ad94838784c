//! Writing settings to a TOML file with `toml_edit`: comments, order, and the notation of all other settings are kept.

use toml::Table;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use super::text::line_end;

/// The text of a file with exactly these settings. What does not differ keeps its notation.
pub fn set(text: &str, after: &Table) -> Result<String, String> {
    let before = parse(text)?;
    if *after == before {
        return Ok(text.to_owned());
    }
    let new: DocumentMut = after.to_string().parse().map_err(message)?;
    let edited = edit(text, |document| set_items(document, &before, after, new.as_table()))?;
    // With CRLF, a string of several lines would have another value.
    let candidates = [with_line_end(&edited, line_end(text)), edited];
    let is_set = |text: &String| parse(text).as_ref() == Ok(after);
    candidates.into_iter().find(is_set).ok_or_else(|| "the settings cannot be merged into the file".to_owned())
}

/// Sets a list of strings at the top of a file.
pub fn set_list(text: &str, name: &str, list: &[String]) -> Result<String, String> {
    let edited = edit(text, |document| {
        let value: Value = list.iter().collect();
        match document.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => replace(old, value),
            None => drop(document.insert(name, Item::Value(value))),
        }
    })?;
    Ok(with_line_end(&edited, line_end(text)))
}

/// The values of a TOML document.
pub fn parse(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| error.to_string().trim_end().to_owned())
}

/// Edits a document. The result has only `\n`, as the parser keeps nothing else.
fn edit(text: &str, change: impl FnOnce(&mut dyn TableLike)) -> Result<String, String> {
    let mut document: DocumentMut = text.replace("\r\n", "\n").parse().map_err(message)?;
    change(document.as_table_mut());
    Ok(document.to_string())
}

fn with_line_end(text: &str, end: &str) -> String {
    text.replace('\n', end)
}

fn message(error: toml_edit::TomlError) -> String {
    error.to_string().trim_end().to_owned()
}

/// Sets the entries of a table; `new` has the notation of those that differ.
fn set_items(table: &mut dyn TableLike, before: &Table, after: &Table, new: &dyn TableLike) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        table.remove(name);
    }
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        let Some(item) = new.get(name) else { continue };
        match (table.get_mut(name), before.get(name), value, item.as_table_like()) {
            (Some(old), Some(toml::Value::Table(before)), toml::Value::Table(after), Some(new))
                if old.is_table_like() =>
            {
                if let Some(old) = old.as_table_like_mut() {
                    set_items(old, before, after, new);
                }
            }
            (Some(Item::Value(old)), ..) if item.is_value() => {
                if let Item::Value(new) = item {
                    replace(old, new.clone());
                }
            }
            _ => drop(table.insert(name, plain(item.clone()))),
        }
    }
}

/// Replaces a value and keeps the blanks and the comment around it.
fn replace(old: &mut Value, mut new: Value) {
    *new.decor_mut() = old.decor().clone();
    *old = new;
}

/// An item without the comments and the place that it had in its document.
fn plain(mut item: Item) -> Item {
    match &mut item {
        Item::Value(value) => value.decor_mut().clear(),
        Item::Table(table) => {
            table.set_position(None);
            table.decor_mut().clear();
            for (mut name, inner) in table.iter_mut() {
                name.leaf_decor_mut().clear();
                *inner = plain(std::mem::take(inner));
            }
        }
        Item::ArrayOfTables(_) | Item::None => {}
    }
    item
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use winpool_render::toml_layer;

    use super::*;

    fn merge(text: &str, layer: &str) -> Result<String, String> {
        let mut after = parse(text)?;
        toml_layer::merge(&mut after, &parse(layer)?)?;
        set(text, &after)
    }

    const MAIN: &str = "\
# containerd
version = 2
root = 'C:\\ProgramData\\containerd\\root' # data

[plugins]
  [plugins.\"io.containerd.grpc.v1.cri\"]
    sandbox_image = \"old:1\" # pause
    [plugins.\"io.containerd.grpc.v1.cri\".cni]
      bin_dir = \"C:/opt/cni/bin\"
      conf_dir = \"C:/etc/cni/net.d\"
";

    #[test]
    fn settings_are_merged_and_everything_else_is_kept() {
        let layer = "\
# a comment of the layer
version = 2
[plugins.\"io.containerd.grpc.v1.cri\"]
sandbox_image = \"new:2\"
[plugins.\"io.containerd.grpc.v1.cri\".registry]
config_path = 'C:\\certs.d'
";
        let expected = "\
# containerd
version = 2
root = 'C:\\ProgramData\\containerd\\root' # data

[plugins]
  [plugins.\"io.containerd.grpc.v1.cri\"]
    sandbox_image = \"new:2\" # pause
    [plugins.\"io.containerd.grpc.v1.cri\".cni]
      bin_dir = \"C:/opt/cni/bin\"
      conf_dir = \"C:/etc/cni/net.d\"

[plugins.\"io.containerd.grpc.v1.cri\".registry]
config_path = 'C:\\certs.d'
";
        assert_eq!(merge(MAIN, layer).unwrap(), expected);
        let windows = MAIN.replace('\n', "\r\n");
        assert_eq!(merge(&windows, layer).unwrap(), expected.replace('\n', "\r\n"));
    }

    #[test]
    fn each_kind_of_value_is_merged() {
        let table = [
            ("", "version = 2\n", "version = 2\n"),
            ("a = 1\n", "a = 1\n", "a = 1\n"),
            ("a = [1, 2] # c\n", "a = [3]\n", "a = [3] # c\n"),
            ("a = { b = 1 }\n", "a.c = 2\n", "a = { b = 1 , c = 2 }\n"),
            ("a.b = 1\n", "[a]\nc = 2\n", "a.b = 1\na.c = 2\n"),
            ("a = '1'\nb = 0x10\n", "a = 'ü'\n", "a = \"ü\"\nb = 0x10\n"),
            ("[[a]]\nb = 1\n", "[[a]]\nb = 2\n", "[[a]]\nb = 2\n"),
        ];
        for (base, layer, expected) in table {
            assert_eq!(merge(base, layer).unwrap(), expected, "{base}{layer}");
        }
    }

    #[test]
    fn a_file_that_is_not_toml_is_an_error() {
        assert!(merge("a = ", "b = 1\n").unwrap_err().contains("line 1"));
        assert!(merge("a = 1\na = 2\n", "b = 1\n").is_err());
    }

    #[test]
    fn a_list_is_set_before_the_tables() {
        let list = ["C:\\a\\*.toml".to_owned()];
        assert_eq!(
            set_list("version = 3\n[a]\n", "imports", &list).unwrap(),
            "version = 3\nimports = ['C:\\a\\*.toml']\n[a]\n"
        );
        assert_eq!(set_list("imports = [] # x\n", "imports", &list).unwrap(), "imports = ['C:\\a\\*.toml'] # x\n");
    }

    fn any_table() -> impl Strategy<Value = Table> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(toml::Value::from),
            any::<i64>().prop_map(toml::Value::from),
            "[ -~äß\n]{0,6}".prop_map(toml::Value::from),
            prop::collection::vec("[a-z]{0,3}".prop_map(toml::Value::from), 0..3).prop_map(toml::Value::from),
        ];
        let value = leaf.prop_recursive(3, 12, 3, |inner| {
            prop::collection::btree_map("[a-c]|[a-z.]{1,4}", inner, 0..3)
                .prop_map(|map| toml::Value::Table(map.into_iter().collect()))
        });
        prop::collection::btree_map("[a-d]", value, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn the_merged_file_has_the_merged_values_and_merging_again_changes_nothing(
            base in any_table(),
            layer in any_table(),
            crlf: bool,
        ) {
            // A string of several lines has other line ends in a file with CRLF.
            let layer_text = layer.to_string();
            prop_assume!(!crlf || !layer_text.contains("\"\"\"") && !layer_text.contains("'''"));
            let text = format!("# first\nz = 0\n{base}");
            let text = if crlf && !text.contains("\\r") { text.replace('\n', "\r\n") } else { text };
            let mut expected = parse(&text).unwrap();
            prop_assume!(toml_layer::merge(&mut expected, &layer).is_ok());
            let merged = merge(&text, &layer.to_string()).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&parse(&merged).unwrap(), &expected);
            prop_assert!(merged.contains("# first"));
            prop_assert_eq!(merge(&merged, &layer.to_string()).unwrap(), merged);
        }
    }
}
