// The room that a folder takes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme {

/// Bytes of the regular files below `folder`; of what cannot be read nothing. Links are not followed.
std::uintmax_t bytes_below(const std::filesystem::path& folder);

}  // namespace trireme
