// Serializes JSON for files, pages and standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

/// The document without a final newline: in one line, or its levels indented by `indent` spaces each. Invalid
/// UTF-8 is replaced, because names of files may contain any bytes.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace trireme
