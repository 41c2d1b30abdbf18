// A channel for messages between two ranks of a group.
#pragma once

#include <compare>

namespace trireme {

/// Messages with one tag from one rank to another. They keep their order, and do not block other channels.
struct MessageChannel {
  int source = 0, destination = 0;
  int tag = 0;  // in [0, 32767]
  auto operator<=>(const MessageChannel&) const = default;
};

}  // namespace trireme
