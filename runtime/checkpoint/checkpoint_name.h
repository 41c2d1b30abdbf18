// Names of folders in a folder of checkpoints (see [Note: whole checkpoints]).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct CheckpointName {
  enum class Kind : std::uint8_t { kFinal, kTemporary, kReplaced, kRemoved };
  Kind kind = Kind::kFinal;
  std::int64_t step = 0;
  std::string mark;  // of the writer; empty for kFinal

  /// "step-000010", ".tmp-step-000010-<mark>".
  std::string to_string() const;
};

/// nullopt for names in another format.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

}  // namespace trireme
