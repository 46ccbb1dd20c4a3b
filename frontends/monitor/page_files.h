// The monitor's page, whose files are part of the program.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace gemel::monitor {

struct PageFile {
  std::string_view name, text;
  bool is_script() const { return name.ends_with(".js"); }
  bool is_style() const { return name.ends_with(".css"); }
};

/// Those of frontends/monitor/page, and the plotting library's, in the order in which a page reads them. Made at build time.
std::span<const PageFile> page_files();

/// Whether the program was built with the plotting library, without which there is no page.
bool has_plotting_library();

/// The page that asks a server.
std::string live_page();
/// The same page as one file with all that it shows. @param data  JSON
std::string page_with(const std::string& data);

}  // namespace gemel::monitor
