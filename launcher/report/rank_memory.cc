#include "launcher/report/rank_memory.h"

#include <fmt/core.h>

#include <sstream>

namespace trireme {

RankMemory largest_of_ranks(Communicator& comm, const MemoryStats& mine) {
  if (comm.size() == 1) return {.peak_bytes = mine.peak_total, .peak = mine.peak};
  std::string text = fmt::format("{}", mine.peak_total);
  for (const std::int64_t bytes : mine.peak.bytes) text += fmt::format(" {}", bytes);
  const std::vector<std::string> texts = comm.all_gather_strings(text);
  RankMemory largest{.peak_bytes = -1};
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::istringstream numbers(texts[static_cast<std::size_t>(rank)]);
    RankMemory memory{.rank = rank};
    numbers >> memory.peak_bytes;
    for (std::int64_t& bytes : memory.peak.bytes) numbers >> bytes;
    if (memory.peak_bytes > largest.peak_bytes) largest = memory;
  }
  return largest;
}

}  // namespace trireme
