// Suggestions for unknown keys and sections of a job, as sentences of a message.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// "did you mean optimizer.lr?", with a hint on values for a name of another framework; for one that no key
/// of ours stands for, what to use in its place. `section` may be empty.
std::string suggest_key(std::string_view section, std::string_view name);

/// "did you mean [train]?". `keys` are names in the unknown section. Names of other frameworks are
/// translated.
std::string suggest_section(std::string_view section, std::span<const std::string> keys);

}  // namespace trireme
