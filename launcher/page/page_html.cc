#include "launcher/page/page_html.h"

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/page/page_assets.h"
#include "launcher/page/run_files.h"
#include "launcher/page/run_json.h"
#include "launcher/page/run_reader.h"
#include "launcher/render/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// Replaces each {{name}} by its text. Inserted text is not expanded again.
std::string fill(std::string_view text, const std::map<std::string, std::string>& places) {
  std::string filled;
  for (std::size_t open; (open = text.find("{{")) != std::string_view::npos;) {
    const std::size_t close = text.find("}}", open);
    filled += text.substr(0, open);
    filled += places.at(std::string(text.substr(open + 2, close - open - 2)));
    text.remove_prefix(close + 2);
  }
  return filled.append(text);
}

/// JSON without the characters < > &, which occur only in its strings, so an HTML parser sees no tag or
/// entity.
std::string json_in_html(const Json& json) {
  std::string text;
  for (const char c : json_text(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else if (c == '&') {
      text += "\\u0026";
    } else {
      text += c;
    }
  }
  return text;
}

std::string page(const Json& data) {
  return fill(page_assets::kHtml, {{"style", page_assets::kStyle},
                                   {"charts", page_assets::kCharts},
                                   {"panels", page_assets::kPanels},
                                   {"script", page_assets::kScript},
                                   {"data", json_in_html(data)}});
}

}  // namespace

std::string live_page() {
  return page(nullptr);
}

std::string report_page(const Json& data) {
  return page(data);
}

Json report_data(const std::vector<std::filesystem::path>& folders) {
  Json runs = Json::array();
  const std::vector<std::string> names = display_names(folders);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    RunReader reader(folders[i]);
    do {
      reader.poll();
    } while (reader.has_more());
    runs.push_back(run_json(reader, names[i]));
  }
  return {{"runs", std::move(runs)}, {"made", std::time(nullptr)}};
}

}  // namespace trireme
