#include "runtime/checkpoint/checkpoint_name.h"

#include <fmt/core.h>

#include <charconv>

namespace trireme {
namespace {

constexpr std::string_view kStep = "step-";

struct Prefix {
  std::string_view text;
  CheckpointName::Kind kind;
};
constexpr Prefix kPrefixes[] = {{".tmp-", CheckpointName::Kind::kTemporary},
                                {".old-", CheckpointName::Kind::kReplaced},
                                {".del-", CheckpointName::Kind::kRemoved}};

std::string_view prefix_of(CheckpointName::Kind kind) {
  for (const Prefix& prefix : kPrefixes) {
    if (prefix.kind == kind) return prefix.text;
  }
  return {};
}

}  // namespace

std::string CheckpointName::to_string() const {
  return fmt::format("{}{}{:06}{}{}", prefix_of(kind), kStep, step, mark.empty() ? "" : "-", mark);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  CheckpointName result;
  std::string_view rest = name;
  for (const Prefix& prefix : kPrefixes) {
    if (!name.starts_with(prefix.text)) continue;
    result.kind = prefix.kind;
    rest.remove_prefix(prefix.text.size());
  }
  if (!rest.starts_with(kStep)) return std::nullopt;
  rest.remove_prefix(kStep.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result.step);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (rest.starts_with('-')) result.mark = rest.substr(1);
  // A name that does not round-trip ("step-10", "step-000010-copy") is not ours.
  if ((result.kind == CheckpointName::Kind::kFinal) != result.mark.empty()) return std::nullopt;
  return result.to_string() == name && result.step >= 0 ? std::optional(result) : std::nullopt;
}

}  // namespace trireme
