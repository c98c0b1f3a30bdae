//! A report as one HTML file that contains its style, charts (inline SVG) and data.
//!
//! Contract: pure. The page loads nothing and runs no script. It follows the reader's choice of
//! light or dark, and can be printed. The JSON of the report is in a `<script>` of a type that
//! browsers ignore, so that the file alone is enough for further computation.

use std::fmt::Write;

use outcore_io::Result;

use super::text::{head, show};
use super::{Cell, Fact, Report, Section, Table};

const STYLE: &str = include_str!("page.css");

pub(crate) fn page(report: &Report) -> Result<String> {
    let mut out = String::with_capacity(256 << 10);
    let title = escape(&report.title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>{STYLE}{}</style></head>\n<body><main>\n<h1>{title}</h1>\n\
         <p class=\"dim\">outcore {}, {}, {}</p>\n",
        outcore_chart::STYLE,
        escape(&report.command),
        escape(&report.started),
        outcore_io::units::seconds(report.seconds),
    );
    headlines(&mut out, report);
    if report.sections.len() > 2 {
        out.push_str("<nav>");
        for section in &report.sections {
            let (id, title) = (escape(&section.id), escape(&section.title));
            let _ = write!(out, "<a href=\"#{id}\">{title}</a>");
        }
        out.push_str("</nav>\n");
    }
    for part in &report.sections {
        section(&mut out, part)?;
    }
    out.push_str("<section id=\"how\"><h2>How this was measured</h2><div class=\"two\">");
    facts(&mut out, "Machine", &report.machine);
    facts(&mut out, "Options", &report.options);
    // In a script element only `</` could end the data early; JSON allows `<\/` instead.
    let data = report.to_json().to_string().replace("</", "<\\/");
    let _ = write!(
        out,
        "</div></section>\n<script type=\"application/json\" id=\"report\">{data}</script>\n\
         </main></body></html>\n"
    );
    Ok(out)
}

fn headlines(out: &mut String, report: &Report) {
    if !report.headlines.is_empty() {
        out.push_str("<div class=\"cards\">");
        for headline in &report.headlines {
            let unit = match headline.unit.title() {
                "" => String::new(),
                title => format!(" <small>{}</small>", escape(title)),
            };
            let _ = write!(
                out,
                "<div class=\"card\"><span class=\"n\">{}</span><b>{}{unit}</b><span>{}</span></div>",
                escape(&headline.name),
                escape(&headline.unit.show(headline.value)),
                escape(&headline.note)
            );
        }
        out.push_str("</div>\n");
    }
    if !report.verdict.is_empty() {
        out.push_str("<div class=\"verdict\"><ul>");
        for sentence in &report.verdict {
            let _ = write!(out, "<li>{}</li>", escape(sentence));
        }
        out.push_str("</ul></div>\n");
    }
}

fn section(out: &mut String, section: &Section) -> Result<()> {
    let _ = writeln!(
        out,
        "<section id=\"{}\"><h2>{}</h2><p class=\"dim\">{}</p>",
        escape(&section.id),
        escape(&section.title),
        escape(&section.text)
    );
    if !section.charts.is_empty() {
        out.push_str("<div class=\"charts\">");
        for chart in &section.charts {
            // On a narrow screen a chart scrolls; a smaller chart would be unreadable.
            let _ = write!(out, "<div class=\"chart\">{}</div>", chart.svg_inline()?);
        }
        out.push_str("</div>\n");
    }
    for part in &section.tables {
        table(out, part);
    }
    for note in &section.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("</section>\n");
    Ok(())
}

fn table(out: &mut String, table: &Table) {
    let is_text = |at: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(at));
        cells.all(|cell| matches!(cell, Cell::Text(_) | Cell::None))
    };
    let class: Vec<&str> = (0..table.columns.len())
        .map(|at| if is_text(at) { " class=\"t\"" } else { "" })
        .collect();
    let _ = write!(
        out,
        "<h3>{}</h3><div class=\"wide\"><table><thead><tr>",
        escape(&table.title)
    );
    for (column, class) in table.columns.iter().zip(&class) {
        let _ = write!(out, "<th{class}>{}</th>", escape(&head(column)));
    }
    out.push_str("</tr></thead><tbody>\n");
    let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
    let highest = numbers
        .filter_map(|cell| match cell {
            Cell::Number(value) if value.is_finite() => Some(*value),
            _ => None,
        })
        .fold(0.0, f64::max);
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            let text = escape(&show(cell, column));
            let _ = match cell {
                Cell::Number(value) if table.is_map && at > 0 && highest > 0.0 => write!(
                    out,
                    "<td class=\"h\" style=\"--v:{:.2}\">{text}</td>",
                    value / highest
                ),
                _ => write!(out, "<td{}>{text}</td>", class[at]),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn facts(out: &mut String, title: &str, facts: &[Fact]) {
    if facts.is_empty() {
        return;
    }
    let _ = write!(out, "<div><h3>{title}</h3><dl>");
    for fact in facts {
        let (name, value) = (escape(&fact.name), escape(&fact.value));
        let _ = write!(out, "<dt>{name}</dt><dd>{value}</dd>");
    }
    out.push_str("</dl></div>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    #[test]
    fn the_data_in_the_page_are_the_report_and_cannot_end_the_script() {
        let mut report = sample();
        report.verdict.push("</script><b>".to_owned());
        let html = report.to_html().unwrap();
        let (_, rest) = html.split_once("id=\"report\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        let back: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(back, report.to_json());
        assert!(!html.contains("<b>\n") && html.contains("&lt;/script&gt;&lt;b&gt;"));
    }
}
