#include "launcher/report/rank_memory.h"

#include <algorithm>

namespace trireme {

const RankMemory& largest(std::span<const RankMemory> ranks) {
  return *std::ranges::max_element(ranks, {}, &RankMemory::peak_bytes);
}

}  // namespace trireme
