// The calls of a Communicator, for messages, for matching them between ranks and for counting them.
#pragma once

#include <cstdint>
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
  switch (kind) {
    case CallKind::kAllReduce:
      return "all_reduce";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kAllToAll:
      return "all_to_all";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kSend:
      return "send";
    case CallKind::kRecv:
      return "recv";
    case CallKind::kBarrier:
      return "barrier";
    case CallKind::kAllGatherStrings:
      return "all_gather_strings";
    case CallKind::kAllGatherValues:
      return "all_gather_values";
    case CallKind::kSplit:
      return "split";
  }
  return "?";
}

}  // namespace trireme
