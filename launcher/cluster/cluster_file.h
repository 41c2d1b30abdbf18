// Descriptions of clusters as TOML files.
#pragma once

#include <filesystem>
#include <string>

#include "parallel/cluster/cluster.h"

namespace trireme {

/// Throws Error(kInvalidInput) that names the file, with line and column, the key and what is allowed: of an
/// unknown key the nearest known one, a number out of bounds, a link that no section describes.
Cluster read_cluster(const std::filesystem::path& file);

/// The same from text; `source` names it in messages.
Cluster parse_cluster(std::string_view text, const std::string& source);

/// Every key with its value; parse_cluster() reads the same cluster from it.
std::string to_toml(const Cluster& cluster);

}  // namespace trireme
