#include "parallel/layout/parameter_rules.h"

#include <algorithm>

namespace trireme {
namespace {

// The factor of the longest pattern in `scales` that matches a name; `otherwise` if none matches.
float scale_of(const std::map<std::string, double>& scales, std::string_view name, float otherwise) {
  std::size_t longest = 0;
  for (const auto& [pattern, scale] : scales) {
    if (pattern.size() < longest || !matches_pattern(pattern, name)) continue;
    longest = pattern.size();
    otherwise = static_cast<float>(scale);
  }
  return otherwise;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches_pattern(pattern, name); });
}

}  // namespace

// On a mismatch, goes back to the last `*` and lets it match one more character.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_frozen(const ParameterRules& rules, std::string_view name) {
  return matches_any(rules.frozen, name) || (!rules.trained.empty() && !matches_any(rules.trained, name));
}

ParameterRule rule_of(const ParameterRules& rules, const ParameterSpec& spec, std::string_view full_name) {
  const std::string name = whole_name(spec.slice, std::string(full_name));
  return {.frozen = is_frozen(rules, name),
          .lr_scale = scale_of(rules.lr_scale, name, 1.0f),
          .decay = scale_of(rules.decay_scale, name, spec.decay ? 1.0f : 0.0f)};
}

bool is_hidden_matrix(const BlockList& blocks, std::size_t block, const ParameterSpec& spec) {
  return block > 0 && block + 1 < blocks.size() && spec.decay && spec.shape.rank() == 2 &&
         spec.tied_to.empty();
}

std::vector<std::string> parameter_names(const BlockList& blocks) {
  std::vector<std::string> names;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (!spec.tied_to.empty()) continue;
      const std::string name = whole_name(spec.slice, block->full_name(spec));
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string unmatched_pattern(std::span<const std::string> patterns, std::span<const std::string> names) {
  const auto found = std::ranges::find_if(patterns, [&](const std::string& pattern) {
    return std::ranges::none_of(names,
                                [&](const std::string& name) { return matches_pattern(pattern, name); });
  });
  return found == patterns.end() ? "" : *found;
}

}  // namespace trireme
