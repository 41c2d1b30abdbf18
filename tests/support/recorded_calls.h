// The calls recorded by a RecordingCommunicator, as text, for tests.
#pragma once

#include <fmt/core.h>

#include <string>

#include "parallel/comm/recording.h"

namespace trireme::testing {

/// "send 4096 B bf16 to 1, tag 3".
inline std::string to_string(const RecordedCall& call) {
  std::string text(name(call.kind));
  if (call.kind == CallKind::kBarrier || call.kind == CallKind::kAllGatherStrings) return text;
  if (call.kind == CallKind::kAllGatherValues) return text + fmt::format(" {} B", call.bytes);
  text += fmt::format(" {} B {}", call.bytes, name(call.dtype));
  if (call.kind == CallKind::kSend) text += fmt::format(" to {}, tag {}", call.peer, call.tag);
  if (call.kind == CallKind::kRecv) text += fmt::format(" from {}, tag {}", call.peer, call.tag);
  if (call.kind == CallKind::kBroadcast) text += fmt::format(" from {}", call.peer);
  return text;
}

/// One line per call.
inline std::string to_string(const RecordingCommunicator& comm) {
  std::string text;
  for (const RecordedCall& call : comm.calls()) text += to_string(call) + "\n";
  return text;
}

/// Sum over the calls of one kind.
inline TrafficCounts traffic_of(const RecordingCommunicator& comm, CallKind kind) {
  TrafficCounts counts;
  for (const RecordedCall& call : comm.calls()) {
    if (call.kind != kind) continue;
    counts.sent_bytes += call.sent_bytes;
    ++counts.num_calls;
  }
  return counts;
}

}  // namespace trireme::testing
