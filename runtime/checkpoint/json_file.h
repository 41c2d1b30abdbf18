// Small JSON files and lines, read with limits: what is nested too deeply or too large is an error, never a
// crash ([Note: nesting]).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) saying what is wrong with the text: it is no JSON, or nested deeper than
/// kMaxNesting.
nlohmann::json parse_json(std::string_view text);

/// Reads a file of at most 16 MiB. `what` names its role in messages ("checkpoint manifest"). Throws
/// Error(kInvalidInput) with role and path, also where a file cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path, const char* what);

}  // namespace trireme
