// The channel of messages between the ranks of a group.
#pragma once

#include <compare>

namespace trireme {

/// From rank to rank, for messages of one tag. Messages on a channel keep their order and hold up no others.
struct MessageChannel {
  int source = 0, destination = 0;
  int tag = 0;  // in [0, 32767]
  auto operator<=>(const MessageChannel&) const = default;
};

}  // namespace trireme
