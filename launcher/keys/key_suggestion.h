// Suggestions for unknown keys and sections of a job, as sentences of a message.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// "did you mean optimizer.lr?". For a name of another framework, adds how to convert values, or what to use
/// instead if we have no such key. `section` may be empty.
std::string suggest_key(std::string_view section, std::string_view name);

/// "did you mean [train]?". `keys` are the names in the unknown section. Section names of other
/// frameworks are translated.
std::string suggest_section(std::string_view section, std::span<const std::string> keys);

}  // namespace trireme
