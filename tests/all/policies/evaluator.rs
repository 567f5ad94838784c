//! Evaluates admission policies in process as an API server does: which policy a request matches, and what its CEL
//! expressions result in.
//!
//! It differs from an API server in two points. Variables are evaluated in their order instead of when they are used;
//! one that results in an error is absent. The CEL library has no types of messages, so `JSONPatch{…}` is evaluated as a
//! map with the same fields, and the fields are not type-checked.

use std::collections::HashMap;

use kube::core::cel::cel::{Context, Program, Value as CelValue};
use serde_json::{Value, json};

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    pub user: String,
    /// Further information about the user, as in `userInfo.extra`.
    pub extra: Value,
    pub operation: &'static str,
    pub group: &'static str,
    /// The resource, with the subresource.
    pub resource: &'static str,
    pub name: String,
    /// The labels of the namespace of the object.
    pub namespace: Option<Value>,
    pub old: Value,
    pub new: Value,
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The policies that reject it, each with its message.
    pub rejections: Vec<(String, String)>,
    /// The errors of expressions, which the policy may ignore.
    pub errors: Vec<String>,
    /// The object after all mutations.
    pub object: Value,
}

impl Outcome {
    /// The names of the policies that reject the request.
    pub fn rejected_by(&self) -> String {
        let mut names: Vec<_> = self.rejections.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        names.join(",")
    }
}

/// Evaluates policies with their bindings, in the order of their names. `params` are the objects of the kind of the
/// parameters.
pub fn evaluate(objects: &[Value], params: &[Value], request: &Request) -> Outcome {
    let mut outcome = Outcome { object: request.new.clone(), ..Outcome::default() };
    for policy in objects.iter().filter(|object| !object["spec"]["matchConstraints"].is_null()) {
        for binding in objects.iter().filter(|object| object["spec"]["policyName"] == policy["metadata"]["name"]) {
            let nothing = [Value::Null];
            let params = if binding["spec"]["paramRef"].is_null() { &nothing } else { params };
            for param in params.iter().filter(|_| matches(&policy["spec"]["matchConstraints"], request)) {
                invoke(policy, param, request, &mut outcome);
            }
        }
    }
    outcome
}

/// Evaluates a policy with one parameter.
fn invoke(policy: &Value, param: &Value, request: &Request, outcome: &mut Outcome) {
    let (name, spec) = (policy["metadata"]["name"].as_str().unwrap(), &policy["spec"]);
    let mut scope = Scope::new(request, param, &outcome.object);
    let fails = spec["failurePolicy"] == "Fail";
    let failed = |outcome: &mut Outcome, error: String| {
        outcome.errors.push(format!("{name}: {error}"));
        if fails {
            outcome.rejections.push((name.to_owned(), error));
        }
    };
    let conditions: Vec<_> = list(&spec["matchConditions"]).map(|one| scope.evaluate(&one["expression"])).collect();
    if conditions.contains(&Ok(json!(false))) {
        return;
    }
    if let Some(error) = conditions.into_iter().find_map(Result::err) {
        return failed(outcome, error);
    }
    for variable in list(&spec["variables"]) {
        scope.define(variable["name"].as_str().unwrap(), &variable["expression"]);
    }
    for validation in list(&spec["validations"]) {
        match scope.evaluate(&validation["expression"]) {
            Ok(result) if result == true => {}
            Ok(_) => outcome.rejections.push((name.to_owned(), validation["message"].as_str().unwrap().to_owned())),
            Err(error) => failed(outcome, error),
        }
    }
    for mutation in list(&spec["mutations"]) {
        scope.variables[1].1 = outcome.object.clone();
        match scope.evaluate(&mutation["jsonPatch"]["expression"]) {
            Ok(patch) => patch.as_array().unwrap().iter().for_each(|operation| add(&mut outcome.object, operation)),
            Err(error) => failed(outcome, error),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether the constraints of a policy match a request; those on objects hold before or after it.
fn matches(constraints: &Value, request: &Request) -> bool {
    let contains = |list: &Value, item: &str| list.as_array().unwrap().contains(&json!(item));
    let has_rule = list(&constraints["resourceRules"]).any(|rule| {
        contains(&rule["apiGroups"], request.group)
            && contains(&rule["operations"], request.operation)
            && contains(&rule["resources"], request.resource)
    });
    let namespace = request.namespace.as_ref();
    has_rule
        && namespace.is_none_or(|labels| selects(&constraints["namespaceSelector"], labels))
        && [&request.old, &request.new]
            .into_iter()
            .any(|object| selects(&constraints["objectSelector"], &object["metadata"]["labels"]))
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    equal.all(|(key, value)| labels[key] == *value)
        && list(&selector["matchExpressions"]).all(|expression| {
            assert_eq!(expression["operator"], "Exists");
            !labels[expression["key"].as_str().unwrap()].is_null()
        })
}

/// The variables of expressions.
struct Scope {
    variables: Vec<(&'static str, Value)>,
    /// Those that the policy defines.
    defined: Value,
}

impl Scope {
    fn new(request: &Request, param: &Value, object: &Value) -> Self {
        let mut user = json!({"username": request.user, "groups": ["system:authenticated"]});
        if !request.extra.is_null() {
            user["extra"] = request.extra.clone();
        }
        let attributes = json!({"name": request.name, "operation": request.operation, "userInfo": user});
        let namespace =
            request.namespace.as_ref().map_or(Value::Null, |labels| json!({"metadata": {"labels": labels}}));
        let variables = vec![
            ("request", attributes),
            ("object", object.clone()),
            ("oldObject", request.old.clone()),
            ("params", param.clone()),
            ("namespaceObject", namespace),
        ];
        Self { variables, defined: json!({}) }
    }

    fn define(&mut self, name: &str, expression: &Value) {
        if let Ok(value) = self.evaluate(expression) {
            self.defined[name] = value;
        }
    }

    fn evaluate(&self, expression: &Value) -> Result<Value, String> {
        let text = expression.as_str().unwrap();
        let text = text.replace("JSONPatch{op:", "{'op':").replace("path:", "'path':").replace("value:", "'value':");
        let program = Program::compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut context = Context::default();
        for (name, value) in &self.variables {
            context.add_variable_from_value(*name, cel_of(value));
        }
        context.add_variable_from_value("variables", cel_of(&self.defined));
        let result = program.execute(&context).map_err(|error| format!("{text}: {error}"))?;
        Ok(json_of(&result))
    }
}

/// A value of a CEL expression. Integers have the type int, as the API server reads them.
fn cel_of(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => number.as_i64().unwrap().into(),
        Value::String(text) => text.clone().into(),
        Value::Array(values) => values.iter().map(cel_of).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), cel_of(value))).collect::<HashMap<_, _>>().into()
        }
    }
}

fn json_of(value: &CelValue) -> Value {
    match value {
        CelValue::Bool(value) => json!(value),
        CelValue::Int(value) => json!(value),
        CelValue::UInt(value) => json!(value),
        CelValue::String(value) => json!(**value),
        CelValue::List(values) => values.iter().map(json_of).collect(),
        CelValue::Map(map) => map
            .map
            .iter()
            .map(|(key, value)| (key.to_string(), json_of(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        CelValue::Null => Value::Null,
        other => panic!("a value without a form in JSON: {other:?}"),
    }
}

/// The operation `add` of a JSON patch, for fields of objects.
fn add(object: &mut Value, operation: &Value) {
    assert_eq!(operation["op"], "add");
    let path = operation["path"].as_str().unwrap();
    let (parent, field) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{path}: the parent does not exist"));
    parent[field.replace("~1", "/").replace("~0", "~")] = operation["value"].clone();
}
