#include "frontends/study/report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontends/study/report/plot_svg.h"

namespace gemel::study {
namespace {

template <class... Of>
struct Each : Of... {
  using Of::operator()...;
};

std::string without_bars(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + without_bars(cell) + " |";
  return out + "\n";
}

std::string cells(const std::vector<std::string>& all, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : all) out += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return out + "</tr>\n";
}

constexpr const char* kStyle = R"(
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#111;background:#fff}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.2rem;margin-top:2rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0}
.caption{color:#333;font-size:.9rem;margin:1rem 0 0}th,td{border-bottom:1px solid #ccc;padding:.25rem .7rem;text-align:left;vertical-align:top}
th{cursor:pointer;border-bottom:2px solid #333;white-space:nowrap}td{font-variant-numeric:tabular-nums}
figure{margin:1rem 0}svg{display:block;width:100%;min-width:30rem;max-width:45rem;height:auto}figcaption{color:#333;font-size:.9rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.7rem;font-size:.8rem}p,li{overflow-wrap:anywhere}
@media print{body{max-width:none}h2{break-after:avoid}table,figure{break-inside:avoid}th{cursor:auto}}
)";

/// A click on a head sorts its table by that column: by numbers where both cells begin with one.
constexpr const char* kSort = R"(
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  const body = th.closest('table').tBodies[0], i = th.cellIndex, up = th.dataset.up = th.dataset.up == 1 ? -1 : 1;
  const key = row => row.cells[i].textContent;
  const order = (a, b) => { const x = parseFloat(a), y = parseFloat(b); return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y; };
  [...body.rows].sort((a, b) => up * order(key(a), key(b))).forEach(row => body.append(row));
};
)";

}  // namespace

std::string markdown(const Page& page) {
  std::string out = "# " + page.title + "\n";
  const Each write{
      [&](const Heading& h) { out += "\n## " + h.text + "\n"; },
      [&](const Paragraph& p) { out += "\n" + p.text + "\n"; },
      [&](const ListItems& list) {
        out += "\n";
        for (const std::string& item : list.items) out += "- " + item + "\n";
      },
      [&](const Grid& grid) {
        out += "\n" + grid.caption + "\n\n" + row(grid.head) + row(std::vector<std::string>(grid.head.size(), "---"));
        for (const auto& one : grid.rows) out += row(one);
      },
      [&](const Figure& figure) { out += fmt::format("\n![{}]({})\n", figure.caption, figure.file); },
      [&](const Listing& listing) { out += "\n```\n" + listing.text + "\n```\n"; },
  };
  for (const Block& block : page.blocks) std::visit(write, block);
  return out;
}

std::string html(const Page& page) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width,initial-scale=1'>\n"
      "<link rel='icon' href='data:,'><title>{0}</title><style>{1}</style></head>\n<body><h1>{0}</h1>\n",
      escaped(page.title), kStyle);
  const Each write{
      [&](const Heading& h) { out += "<h2>" + escaped(h.text) + "</h2>\n"; },
      [&](const Paragraph& p) { out += "<p>" + escaped(p.text) + "</p>\n"; },
      [&](const ListItems& list) {
        out += "<ul>\n";
        for (const std::string& item : list.items) out += "<li>" + escaped(item) + "</li>\n";
        out += "</ul>\n";
      },
      [&](const Grid& grid) {
        out += fmt::format("<p class='caption'>{}</p><div class='wide'><table><thead>\n{}</thead><tbody>\n", escaped(grid.caption), cells(grid.head, "th"));
        for (const auto& one : grid.rows) out += cells(one, "td");
        out += "</tbody></table></div>\n";
      },
      [&](const Figure& figure) {
        out += fmt::format("<figure><div class='wide'>{}</div><figcaption>{}</figcaption></figure>\n", figure.svg, escaped(figure.caption));
      },
      [&](const Listing& listing) { out += "<pre>" + escaped(listing.text) + "</pre>\n"; },
  };
  for (const Block& block : page.blocks) std::visit(write, block);
  return out + fmt::format("<script>{}</script></body></html>\n", kSort);
}

}  // namespace gemel::study
