#include "launcher/report/layout_json.h"

namespace trireme {

nlohmann::ordered_json layout_json(const Layout& layout) {
  nlohmann::ordered_json json;
  for (const LayoutField& field : layout_fields()) {
    std::visit([&](const auto& value) { json[std::string(field.name)] = value; }, field.get(layout));
  }
  if (layout.cut.empty()) json["pipeline_cut"] = "flops";
  return json;
}

}  // namespace trireme
