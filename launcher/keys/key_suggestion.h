// Suggestions for unknown keys, words and sections of a job, as sentences of a message.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// "did you mean optimizer.lr?". For a name of another framework, adds how to convert values, or what to use
/// instead if we have no such key. `section` may be empty.
std::string suggest_key(std::string_view section, std::string_view name);

/// The accepted word that an unknown one means: another framework's word translated, or else the nearest one.
std::string suggest_word(std::string_view word, std::span<const std::string> accepted);

/// "did you mean [train]?". `keys` are the names in the unknown section. Section names of other
/// frameworks are translated.
std::string suggest_section(std::string_view section, std::span<const std::string> keys);

}  // namespace trireme
