//! The Prometheus text format, for clients of `/metrics` that do not ask for OpenMetrics.

/// The media type of the Prometheus text format (Prometheus documentation, "Exposition formats").
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts a page of OpenMetrics: metadata has the names of the samples, and there are no units, exemplars and end.
pub(super) fn from_open_metrics(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut help = "";
    for line in page.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(_), Some(text)) => help = text,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    kind => ("", kind),
                };
                out += &format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
            }
            (Some("#"), ..) => {}
            _ => {
                out += line.split_once(" # {").map_or(line, |(sample, _exemplar)| sample);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_infos_get_the_names_of_their_samples_and_exemplars_are_removed() {
        let page = "# HELP a_b Things of a.\n# TYPE a_b counter\na_b_total{c=\"d e\"} 1\n\
                    # HELP a_build Version.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
                    # HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_bucket{le=\"+Inf\"} 1 # {trace_id=\"0af7\"} 0.2 1700000000.1\na_seconds_count 1\n# EOF\n";
        assert_eq!(
            from_open_metrics(page),
            "# HELP a_b_total Things of a.\n# TYPE a_b_total counter\na_b_total{c=\"d e\"} 1\n\
             # HELP a_build_info Version.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
             # HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"+Inf\"} 1\na_seconds_count 1\n"
        );
    }
}
