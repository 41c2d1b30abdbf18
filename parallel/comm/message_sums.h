// Finds messages that arrive with other bits than they were sent with: a communicator around another one.
//
// [Note: message sums] A sender adds up the checksum of each message before it gives it away, a receiver of
// each that has arrived, both by peer. Whenever no message is under way, what is added up over all ranks,
// sent less received, is 0, unless a bit flipped in between: in a buffer, in a network card, on a wire whose
// own checksum missed it, in the library that copies. One number of each rank tells that something did; only
// then do ranks compare who sent what to whom. Messages are those of all_to_all, all_gather, broadcast, send
// and recv. Not covered are all_reduce and reduce_scatter (`reduction = "fast"`): nobody receives there what
// another one sent. Nor is a flip found that came before the sum, as in a gradient of one rank.
//
// What is being sent must not be written, also where that is harmless otherwise: who writes parameters from
// outside waits for their gathers first (ParamStore::settle, StateVerifier::messages).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Of one rank, in all groups that it is in. Ranks are the world's.
class MessageSums {
 public:
  MessageSums(int num_ranks, int num_threads);

  /// Of a message.
  std::uint64_t sum_of(std::span<const std::byte> message) const;
  void add_sent(int to, std::uint64_t sum);
  void add_received(int from, std::uint64_t sum);

  /// Sent less received, which adds up to 0 over all ranks while no message is under way.
  std::uint64_t difference() const;

  struct Path {
    int from = 0, to = 0;
    bool operator==(const Path&) const = default;
  };
  /// Where something else arrived than was sent. Collective over `world`, while no message is under way.
  std::vector<Path> broken_paths(Communicator& world) const;

 private:
  int num_threads_;
  std::vector<std::uint64_t> sent_, received_;  // by peer
};

/// `comm`, which is all ranks of the job in host memory, with sums of its messages and of those of groups
/// that are split off. Counts, waits and errors are those of `comm`.
std::shared_ptr<Communicator> with_message_sums(std::shared_ptr<Communicator> comm, int num_threads);

/// Of a communicator from with_message_sums(); else null.
const MessageSums* message_sums(const Communicator& comm);

}  // namespace trireme
