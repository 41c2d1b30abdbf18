// A wrapper of a communicator that detects messages whose bits changed in transit.
//
// [Note: message sums] A sender adds up the checksum of each message before sending it, and a receiver after
// receiving it, both by peer. Whenever no message is in flight, the total over all ranks of sent minus
// received is 0, unless a bit flipped in between: in a buffer, in a network card, on a wire whose own
// checksum missed it, or in the copying library. One number per rank reveals a flip; only then do ranks
// compare sums by sender and receiver. Covers messages of all_to_all, all_gather, broadcast, send and recv.
// Does not cover all_reduce and reduce_scatter (`reduction = "fast"`), whose receivers get sums instead of
// messages. Does not detect a flip before the checksum, as in a gradient of one rank.
//
// A buffer being sent must not be written, even where that is harmless otherwise. So code that writes
// parameters from outside waits for their gathers first (ParamStore::settle, StateVerifier::messages).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Sums of one rank over all of its groups. Rank arguments are world ranks.
class MessageSums {
 public:
  MessageSums(int num_ranks, int num_threads);

  /// Checksum of a message.
  std::uint64_t sum_of(std::span<const std::byte> message) const;
  void add_sent(int to, std::uint64_t sum);
  void add_received(int from, std::uint64_t sum);

  /// Sent minus received; sums to 0 over all ranks while no message is in flight.
  std::uint64_t difference() const;

  struct Path {
    int from = 0, to = 0;
    bool operator==(const Path&) const = default;
  };
  /// The paths on which received and sent sums differ. Collective over `world`, while no message is in
  /// flight.
  std::vector<Path> broken_paths(Communicator& world) const;

 private:
  int num_threads_;
  std::vector<std::uint64_t> sent_, received_;  // by peer
};

/// Wraps `comm`, a communicator of all ranks of the job in host memory. Sums its messages and the messages of
/// groups split from it. Forwards counts, waits and errors of `comm`.
std::shared_ptr<Communicator> with_message_sums(std::shared_ptr<Communicator> comm, int num_threads);

/// The sums of a communicator made by with_message_sums(); else null.
const MessageSums* message_sums(const Communicator& comm);

}  // namespace trireme
