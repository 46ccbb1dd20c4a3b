// A page of a report, as it is written in Markdown and in HTML.
#pragma once
#include <string>
#include <variant>
#include <vector>

namespace gemel::study {

struct Heading {
  std::string text;
};
struct Paragraph {
  std::string text;
};
struct ListItems {
  std::vector<std::string> items;
};
/// Cells are text; a column sorts by numbers where its cells begin with them.
struct Grid {
  std::string caption;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
struct Figure {
  std::string caption, svg, file;  // as the Markdown page links it
};
struct Listing {
  std::string text;
};
using Block = std::variant<Heading, Paragraph, ListItems, Grid, Figure, Listing>;

struct Page {
  std::string title;
  std::vector<Block> blocks;
};

std::string markdown(const Page& page);
/// One file without references to others.
std::string html(const Page& page);

}  // namespace gemel::study
