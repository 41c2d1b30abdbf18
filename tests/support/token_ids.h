// The tokens of a shard, in a form that tests compare.
#pragma once

#include <vector>

#include "runtime/data/token_file.h"

namespace trireme::testing {

inline std::vector<std::int32_t> token_ids(const TokenFile& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, file.num_tokens(), ids.data());
  return ids;
}

}  // namespace trireme::testing
