//! Line charts as SVG.

use std::fmt::Write as _;

const COLUMNS: usize = 3;
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 200.0;
/// The space around the lines of a chart: left, top, right, bottom.
const MARGIN: [f64; 4] = [48.0, 32.0, 10.0, 62.0];
/// The most lines of a chart: those with the largest values.
const MAX_LINES: usize = 6;
const COLOURS: [&str; MAX_LINES] = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"];

/// A chart.
pub struct Chart {
    pub title: String,
    /// The unit of the values, as in Grafana.
    pub unit: String,
    /// The times at the left and the right.
    pub range: (f64, f64),
    /// The name of each line, and its points as time and value.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// All charts on one page.
#[allow(clippy::cast_precision_loss)]
pub fn page(charts: &[Chart]) -> String {
    let (width, height) = (COLUMNS as f64 * WIDTH, charts.len().div_ceil(COLUMNS) as f64 * HEIGHT);
    let mut page = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#f4f5f5\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        let (x, y) = ((index % COLUMNS) as f64 * WIDTH, (index / COLUMNS) as f64 * HEIGHT);
        let _ = writeln!(page, "<g transform=\"translate({x} {y})\">\n{}</g>", chart.drawn());
    }
    page + "</svg>\n"
}

impl Chart {
    #[allow(clippy::cast_precision_loss)]
    fn drawn(&self) -> String {
        let [left, top, right, bottom] = MARGIN;
        let (width, height) = (WIDTH - left - right, HEIGHT - top - bottom);
        let mut out = format!(
            "<rect x=\"4\" y=\"4\" width=\"{}\" height=\"{}\" fill=\"#fff\" stroke=\"#ddd\"/>\n\
             <text x=\"12\" y=\"20\" font-size=\"12\" font-weight=\"bold\">{}</text>\n",
            WIDTH - 8.0,
            HEIGHT - 8.0,
            escaped(&self.title)
        );
        let lines = self.largest();
        let highest = round_up(lines.iter().map(|(_, points)| highest(points)).fold(0.0, f64::max));
        for part in [0.0, 0.5, 1.0] {
            let (y, label) = (top + height * (1.0 - part), self.label(highest * part));
            let _ = writeln!(
                out,
                "<path d=\"M{left} {y}h{width}\" stroke=\"#e5e5e5\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
                left - 4.0,
                y + 3.0
            );
        }
        let (start, end) = self.range;
        for (part, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
            let (x, y, label) = (left + width * part, top + height + 12.0, time(part * (end - start)));
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"#666\" text-anchor=\"{anchor}\">{label}</text>");
        }
        for (index, (name, points)) in lines.iter().enumerate() {
            let colour = COLOURS[index];
            let place = |(time, value): &(f64, f64)| {
                let x = left + width * (time - start) / (end - start);
                format!("{x:.0},{:.1}", top + height * (1.0 - value / highest))
            };
            let points: Vec<String> = points.iter().filter(|(_, value)| value.is_finite()).map(place).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                points.join(" ")
            );
            let (x, y) = (12.0 + (index % 2) as f64 * WIDTH / 2.0, HEIGHT - 38.0 + (index / 2) as f64 * 13.0);
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"8\" height=\"8\" fill=\"{colour}\"/><text x=\"{}\" y=\"{y}\">{}</text>",
                y - 8.0,
                x + 12.0,
                escaped(name)
            );
        }
        out
    }

    /// The lines with the largest values, by name.
    fn largest(&self) -> Vec<&(String, Vec<(f64, f64)>)> {
        let has_value = |line: &&(String, Vec<(f64, f64)>)| line.1.iter().any(|(_, value)| value.is_finite());
        let mut lines: Vec<_> = self.lines.iter().filter(has_value).collect();
        lines.sort_by(|(_, one), (_, other)| highest(other).total_cmp(&highest(one)));
        lines.truncate(MAX_LINES);
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        lines
    }

    fn label(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" if value < 1.0 => format!("{:.0} ms", value * 1000.0),
            "s" => format!("{} s", rounded(value)),
            "reqps" => format!("{}/s", rounded(value)),
            _ => rounded(value),
        }
    }
}

/// A time since the left of a chart, as minutes and seconds.
fn time(seconds: f64) -> String {
    let (minutes, seconds) = ((seconds / 60.0).floor(), (seconds % 60.0).floor());
    format!("{minutes}:{seconds:02}")
}

fn highest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// A value of an axis, which has at most two digits that are not 0.
fn rounded(value: f64) -> String {
    let digits = if value >= 10.0 || value.fract() == 0.0 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').to_owned() }
}

/// The next of 1, 2, 5, 10, 20, … that is not smaller, so that labels are short.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * unit).find(|rounded| *rounded >= value).unwrap_or(value)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_draws_its_largest_lines_between_zero_and_a_round_number() {
        let line = |name: &str, value: f64| (name.to_owned(), vec![(0.0, 0.0), (10.0, value)]);
        let lines = (1..=8).map(|number| line(&format!("line {number}"), f64::from(number))).collect();
        let page = page(&[Chart { title: "A < B".into(), unit: "s".into(), range: (0.0, 10.0), lines }]);
        assert!(page.contains(">A &lt; B</text>") && page.contains(">10 s</text>"), "{page}");
        assert!(!page.contains("line 2<") && page.contains("line 3<"), "{page}");
        assert!(page.contains("points=\"48,138.0 390,53.2\""), "{page}");
        assert!(page.contains("text-anchor=\"middle\">0:05</text>") && page.contains(">0:10</text>"), "{page}");
    }

    #[test]
    fn values_of_an_axis_are_short() {
        for (value, expected) in [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (2.5, "2.5"), (25.0, "25"), (500.0, "500")]
        {
            assert_eq!(rounded(value), expected);
        }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, expected) in [(0.0, 1.0), (0.03, 0.05), (1.0, 1.0), (7.0, 10.0), (14.0, 20.0), (330.0, 500.0)] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }
}
