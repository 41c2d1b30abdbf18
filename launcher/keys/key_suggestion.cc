#include "launcher/keys/key_suggestion.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "launcher/config/nearest_name.h"
#include "launcher/keys/config_keys.h"
#include "launcher/keys/foreign_names.h"

namespace trireme {
namespace {

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// Looks up a name, or the last part of a nested name such as "optimizer.params.lr".
const ForeignName* find_foreign(std::string_view name) {
  const ForeignName* whole = find_foreign_name(name);
  return whole != nullptr ? whole : find_foreign_name(last_part(name));
}

std::string with_hint(std::string_view name, std::string_view hint) {
  return hint.empty() ? std::string(name) : fmt::format("{} ({})", name, hint);
}

/// The full name of the known key nearest to an unknown one. A key of the same section wins over an equally
/// near one of another section. A key that begins with the unknown name wins over all. Empty: none is near.
std::string nearest_key(std::string_view section, std::string_view name) {
  constexpr std::size_t kTellingPrefix = 4;  // characters
  std::string nearest;
  int least = std::numeric_limits<int>::max();
  for (const ConfigKey& key : config_keys()) {
    if (key.section == section && name.size() >= kTellingPrefix && key.name.starts_with(name)) {
      return key.full_name();
    }
    const int distance = 2 * edit_distance(name, key.name) + (key.section == section ? 0 : 1);
    if (distance < least) {
      least = distance;
      nearest = key.full_name();
    }
  }
  const auto edits = static_cast<std::size_t>(least / 2);
  return 2 * edits <= std::max<std::size_t>(name.size(), 2) ? nearest : "";
}

/// The section, or the table key, that an unknown section name means.
std::string meant_section(std::string_view section) {
  const std::string_view own = last_part(section);
  for (const ConfigKey& key : config_keys()) {
    if (is_table(key.type) && key.name == own) return key.full_name();
  }
  const auto sections = config_sections();
  if (std::ranges::find(sections, own) != sections.end()) return std::string(own);
  if (const auto foreign = find_foreign_section(own); !foreign.empty()) return std::string(foreign);
  return nearest_name(section, sections);
}

}  // namespace

std::string suggest_key(std::string_view section, std::string_view name) {
  const ForeignName* foreign = find_foreign(name);
  if (foreign == nullptr) {
    const std::string nearest = nearest_key(section, name);
    return nearest.empty() ? "no key has a name like it." : fmt::format("did you mean {}?", nearest);
  }
  if (foreign->key.empty()) return fmt::format("no key does that: {}.", foreign->hint);
  return fmt::format("did you mean {}?", with_hint(foreign->key, foreign->hint));
}

std::string suggest_word(std::string_view word, std::span<const std::string> accepted) {
  const std::string_view foreign = find_foreign_word(word);
  return std::ranges::find(accepted, foreign) != accepted.end() ? std::string(foreign)
                                                                : nearest_name(word, accepted);
}

std::string suggest_section(std::string_view section, std::span<const std::string> keys) {
  constexpr int kMostKeys = 4;
  const std::string meant = meant_section(section);
  std::string text = fmt::format("did you mean [{}]?", meant);
  int translated = 0;
  for (const std::string& name : keys) {
    const ForeignName* foreign = find_foreign(name);
    if (foreign == nullptr || foreign->key.empty() || translated == kMostKeys) continue;
    if (foreign->key == fmt::format("{}.{}", meant, name)) continue;  // only the section differs
    text += fmt::format("{}{} is {}", translated++ == 0 ? " Its " : ", ", name,
                        with_hint(foreign->key, foreign->hint));
  }
  return translated > 0 ? text + "." : text;
}

}  // namespace trireme
