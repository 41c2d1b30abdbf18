// The calls of a Communicator: for messages, for matching calls between ranks, and for counting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace trireme {

enum class CallKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSend,
  kRecv,
  kBarrier,
  kAllGatherStrings,
  kAllGatherValues,
  kSplit,
};
inline constexpr int kNumCallKinds = 11;

/// "all_reduce": the name of the member function.
constexpr std::string_view name(CallKind kind) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "reduce_scatter", "all_gather",         "all_to_all",        "broadcast", "send",
      "recv",       "barrier",        "all_gather_strings", "all_gather_values", "split"};
  static_assert(std::size(kNames) == kNumCallKinds);
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace trireme
