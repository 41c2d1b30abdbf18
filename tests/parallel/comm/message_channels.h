// Channels for tests that send messages.
#pragma once

#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Opens channels between any two ranks. Collective.
inline void open_channels_of_pairs(Communicator& comm, const std::vector<int>& tags) {
  std::vector<MessageChannel> channels;
  for (const int tag : tags) {
    for (int source = 0; source < comm.size(); ++source) {
      for (int destination = 0; destination < comm.size(); ++destination) {
        if (source != destination) channels.push_back({source, destination, tag});
      }
    }
  }
  comm.open_channels(channels);
}

/// Opens channels from each rank to the next, and from the last to the first. Collective.
inline void open_channels_of_ring(Communicator& comm, const std::vector<int>& tags) {
  if (comm.size() == 1) return;
  std::vector<MessageChannel> channels;
  for (const int tag : tags) {
    for (int rank = 0; rank < comm.size(); ++rank) channels.push_back({rank, (rank + 1) % comm.size(), tag});
  }
  comm.open_channels(channels);
}

}  // namespace trireme
