//! Environment variables of services, as `NAME=value`. Windows compares their names without case.

pub fn value(variables: &[String], name: &str) -> Option<String> {
    variables.iter().find(|variable| is(variable, name)).and_then(|variable| pair(variable).1)
}

/// Sets a variable in place, or removes it.
pub fn set(variables: &mut Vec<String>, name: &str, value: Option<&str>) {
    let Some(value) = value else { return variables.retain(|variable| !is(variable, name)) };
    let new = format!("{name}={value}");
    match variables.iter_mut().find(|variable| is(variable, name)) {
        Some(old) if pair(old).1.as_deref() == Some(value) => {}
        Some(old) => *old = new,
        None => variables.push(new),
    }
}

/// The variables of a file with one per line. Empty lines and comments are skipped.
pub fn parse(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The name of a variable, and its value.
pub fn pair(variable: &str) -> (String, Option<String>) {
    match variable.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (variable.to_owned(), None),
    }
}

fn is(variable: &str, name: &str) -> bool {
    pair(variable).0.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_same_name_are_replaced_and_others_are_kept() {
        let all = |list: &[&str]| list.iter().map(|&variable| variable.to_owned()).collect::<Vec<_>>();
        let mut variables = all(&["GODEBUG=x=1", "http_proxy=http://old", "Empty="]);
        for variable in parse("# comment\n\nHTTP_PROXY=http://new\r\nNO_PROXY=.svc,10.0.0.0/8\nEMPTY=\n") {
            let (name, value) = pair(&variable);
            set(&mut variables, &name, value.as_deref());
        }
        let expected = ["GODEBUG=x=1", "HTTP_PROXY=http://new", "Empty=", "NO_PROXY=.svc,10.0.0.0/8"];
        assert_eq!(variables, all(&expected));
        assert_eq!(value(&variables, "godebug").as_deref(), Some("x=1"));
        set(&mut variables, "http_proxy", None);
        assert_eq!(value(&variables, "HTTP_PROXY"), None);
    }
}
