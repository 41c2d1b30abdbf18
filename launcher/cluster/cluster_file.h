// Reads and writes descriptions of clusters as TOML files.
#pragma once

#include <filesystem>
#include <string>

#include "parallel/cluster/cluster.h"

namespace trireme {

/// Throws Error(kInvalidInput) with file, line, column, key and allowed values. Examples: an unknown key
/// (with the nearest known one), a number out of range, a link without a section.
Cluster read_cluster(const std::filesystem::path& file);

/// Parses text; `source` names it in messages.
Cluster parse_cluster(std::string_view text, const std::string& source);

/// Every key with its value; parse_cluster() of the text returns the same cluster.
std::string to_toml(const Cluster& cluster);

}  // namespace trireme
