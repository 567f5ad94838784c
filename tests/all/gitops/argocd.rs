//! The health check for Argo CD, run by Lua 5.1 as Argo CD does: with the basic functions and `table`, and the object in
//! the global `obj`.
//!
//! Source: argoproj/argo-cd, `util/lua/lua.go` (runLua, ExecuteHealthLua).

use std::{fs, path::Path};

use mlua::{Lua, LuaOptions, LuaSerdeExt as _, StdLib, Table};
use serde_json::Value;

/// The scripts of `config/argocd`.
pub struct ArgoCd {
    data: Value,
}

impl ArgoCd {
    pub fn new() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/argocd/argocd-cm.yaml");
        let patch: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        Self { data: patch["data"].clone() }
    }

    /// Status and message of an object.
    pub fn health(&self, kind: &str, object: &Value) -> (String, String) {
        let script = self.data[format!("resource.customizations.health.winpool.dev_{kind}")].as_str().unwrap();
        let lua = Lua::new_with(StdLib::TABLE, LuaOptions::default()).unwrap();
        // Argo CD decodes null as nil.
        let options = mlua::SerializeOptions::new().serialize_none_to_null(false).serialize_unit_to_null(false);
        lua.globals().set("obj", lua.to_value_with(object, options).unwrap()).unwrap();
        let health: Table = lua.load(script).eval().unwrap();
        (health.get("status").unwrap(), health.get("message").unwrap())
    }
}
