//! The page.

use std::fmt::Write as _;

use super::conclusion::conclusion;
use super::figure::Figure;
use super::inputs::Report;
use super::setting::network_and_batch;
use super::table::{Row, Table};
use super::tables::tables;
use crate::picture::escaped;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(report: &Report, figures: &[Figure]) -> String {
    let title = title(report);
    let mut page = Page::default();
    page.put(format_args!("<h1>{}</h1>", escaped(&title)));
    page.put(format_args!("<div class=\"conclusion\">"));
    for sentence in conclusion(report) {
        page.put(format_args!("<p>{}</p>", escaped(&sentence)));
    }
    page.put(format_args!("</div>"));
    let mut tables = tables(report);
    for explanation in &report.explanations {
        for (title, rows) in explanation.tables() {
            let title = match (report.explanations.len(), report.runs.len()) {
                (1, 0 | 1) => title[..1].to_uppercase() + &title[1..],
                _ => format!("{}: {title}", explanation.explains),
            };
            tables.push(with_header(title, rows));
        }
    }
    contents(&mut page, figures, &tables);
    page.put(format_args!("<main>"));
    for figure in figures {
        show_figure(&mut page, figure);
    }
    for (index, table) in tables.iter().enumerate() {
        let id = format!("table-{}", index + 1);
        page.put(format_args!("<section id=\"{id}\">\n<h2>{}</h2>", escaped(&table.title)));
        show_table(&mut page, table);
        page.put(format_args!("</section>"));
    }
    missing(&mut page, report, figures);
    page.put(format_args!("</main>"));
    let body = page.0;
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"tidegate {version}\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{styles}</style>\n</head>\n<body>\n\
         {definitions}{body}</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escaped(&title),
        styles = shared(figures, |style, _| style, "\n"),
        definitions = definitions(figures),
    )
}

/// Rows that begin with their header, where its first cell is empty, or have none.
fn with_header(title: String, mut rows: Vec<Vec<String>>) -> Table {
    let has_header = rows.first().and_then(|row| row.first()).is_some_and(String::is_empty);
    let header = if has_header { rows.remove(0) } else { Vec::new() };
    Table { title, header, rows: rows.into_iter().map(Row::Cells).collect(), text_columns: 1 }
}

fn title(report: &Report) -> String {
    let mut networks: Vec<&str> = report.settings.iter().map(|s| s.network.as_str()).collect();
    networks.extend(report.searches.iter().map(|search| search.setting.network.as_str()));
    networks.extend(report.runs.iter().map(|run| network_and_batch(&run.timeline.trace.name).0));
    if networks.is_empty() {
        networks.extend(report.explanations.iter().map(|it| network_and_batch(&it.explains).0));
    }
    networks.sort_unstable();
    networks.dedup();
    match networks.as_slice() {
        [one] => format!("Tidegate report: {one}"),
        [] => "Tidegate report".into(),
        several if several.len() <= 4 => format!("Tidegate report: {}", several.join(", ")),
        several => format!("Tidegate report: {} networks", several.len()),
    }
}

/// What the pictures have in common, each once.
fn shared(
    figures: &[Figure],
    of: impl Fn(&'static str, &'static str) -> &'static str,
    end: &str,
) -> String {
    let mut all: Vec<&str> = Vec::new();
    for picture in figures.iter().flat_map(|figure| &figure.pictures) {
        let one = of(picture.style, picture.definitions);
        if !one.is_empty() && !all.contains(&one) {
            all.push(one);
        }
    }
    all.iter().map(|one| format!("{one}{end}")).collect()
}

/// Patterns that the pictures' styles refer to. Without size rather than hidden: what is not
/// displayed paints nothing.
fn definitions(figures: &[Figure]) -> String {
    match shared(figures, |_, definitions| definitions, "") {
        none if none.is_empty() => none,
        some => format!(
            "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\">\
             <defs>{some}</defs></svg>\n"
        ),
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes all text");
    }
}

fn contents(page: &mut Page, figures: &[Figure], tables: &[Table]) {
    if figures.len() + tables.len() < 2 {
        return;
    }
    page.put(format_args!("<nav aria-label=\"Figures and tables\"><ul>"));
    for (index, Figure { id, title, .. }) in figures.iter().enumerate() {
        let number = index + 1;
        page.put(format_args!("<li><a href=\"#{id}\">{number}. {}</a></li>", escaped(title)));
    }
    for (index, Table { title, .. }) in tables.iter().enumerate() {
        let number = index + 1;
        page.put(format_args!("<li><a href=\"#table-{number}\">{}</a></li>", escaped(title)));
    }
    page.put(format_args!("</ul></nav>"));
}

fn show_table(page: &mut Page, table: &Table) {
    let name = escaped(&table.title);
    page.put(format_args!("{}<table aria-label=\"{name}\">\n<thead><tr>", region(&name)));
    let class = |column: usize| if column < table.text_columns { " class=\"text\"" } else { "" };
    for (column, name) in table.header.iter().enumerate() {
        page.put(format_args!("<th scope=\"col\"{}>{}</th>", class(column), escaped(name)));
    }
    page.put(format_args!("</tr></thead>\n<tbody>"));
    for row in &table.rows {
        match row {
            Row::Cells(cells) => {
                let cells = cells.iter().enumerate();
                let cells: String = cells
                    .map(|(column, cell)| match column {
                        0 => format!("<th scope=\"row\" class=\"text\">{}</th>", escaped(cell)),
                        _ => format!("<td{}>{}</td>", class(column), escaped(cell)),
                    })
                    .collect();
                page.put(format_args!("<tr>{cells}</tr>"));
            }
            Row::Sentence(name, sentence) => page.put(format_args!(
                "<tr><th scope=\"row\" class=\"text\">{}</th>\
                 <td class=\"sentence\" colspan=\"{}\">{}</td></tr>",
                escaped(name),
                table.header.len() - 1,
                escaped(sentence)
            )),
        }
    }
    page.put(format_args!("</tbody></table></div>"));
}

/// The beginning of a part that may be wider than the page: keys scroll it, too.
fn region(name: &str) -> String {
    format!("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">")
}

fn show_figure(page: &mut Page, figure: &Figure) {
    let Figure { id, title, caption, pictures, table } = figure;
    page.put(format_args!("<figure id=\"{id}\">\n<h2>{}</h2>", escaped(title)));
    for picture in pictures {
        let region = region(&escaped(&picture.name));
        page.put(format_args!("{region}{}</div>", picture.inline().trim_end()));
    }
    let files: Vec<_> = figure.files().into_iter().map(|(stem, _)| stem).collect();
    let files = files.iter().map(|stem| format!("{stem}.svg, {stem}.png"));
    let files = files.collect::<Vec<_>>().join(", ");
    page.put(format_args!(
        "<figcaption>{} <span class=\"files\">[{files}]</span></figcaption>",
        escaped(caption)
    ));
    if let Some(table) = table {
        page.put(format_args!("<h3>{}</h3>", escaped(&table.title)));
        show_table(page, table);
    }
    page.put(format_args!("</figure>"));
}

/// What the page does not show, and why.
fn missing(page: &mut Page, report: &Report, figures: &[Figure]) {
    let missing = report.missing(figures);
    if missing.is_empty() {
        return;
    }
    page.put(format_args!("<details>\n<summary>Not shown</summary>\n<ul>"));
    for (title, why) in missing {
        page.put(format_args!("<li>{}: {}.</li>", escaped(&title), escaped(&why)));
    }
    page.put(format_args!("</ul>\n</details>"));
}
