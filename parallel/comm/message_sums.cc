#include "parallel/comm/message_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "parallel/comm/checksum.h"
#include "parallel/comm/communicator_wrapper.h"

namespace trireme {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.size_bytes())};
}

/// Piece `index` of `count` equal pieces.
std::span<const std::byte> piece_of(const Tensor& tensor, int index, int count) {
  const std::size_t bytes = bytes_of(tensor).size() / static_cast<std::size_t>(count);
  return bytes_of(tensor).subspan(static_cast<std::size_t>(index) * bytes, bytes);
}

/// The message sums of one rank in a group. Shared by operations, which may outlive their communicator.
class GroupSums {
 public:
  /// `world_ranks`: world rank by rank of the group.
  GroupSums(std::shared_ptr<MessageSums> sums, std::vector<int> world_ranks, int rank)
      : sums_(std::move(sums)), world_ranks_(std::move(world_ranks)), rank_(rank) {}

  int world_rank() const { return at(rank_); }
  const std::shared_ptr<MessageSums>& sums() const { return sums_; }

  void send(int to, std::span<const std::byte> message) { sums_->add_sent(at(to), sums_->sum_of(message)); }
  void receive(int from, std::span<const std::byte> message) {
    sums_->add_received(at(from), sums_->sum_of(message));
  }
  void send_to_others(std::span<const std::byte> message) {
    if (size() == 1) return;
    const std::uint64_t sum = sums_->sum_of(message);
    for_others([&](int to) { sums_->add_sent(at(to), sum); });
  }
  void send_pieces(const Tensor& in) {
    for_others([&](int to) { send(to, piece_of(in, to, size())); });
  }
  void receive_pieces(const Tensor& out) {
    for_others([&](int from) { receive(from, piece_of(out, from, size())); });
  }

 private:
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int at(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  template <class F>
  void for_others(F use) const {
    for (int other = 0; other < size(); ++other) {
      if (other != rank_) use(other);
    }
  }

  const std::shared_ptr<MessageSums> sums_;
  const std::vector<int> world_ranks_;
  const int rank_;
};

class SummingCommunicator final : public CommunicatorWrapper {
 public:
  SummingCommunicator(std::shared_ptr<Communicator> comm, std::shared_ptr<GroupSums> sums)
      : CommunicatorWrapper(std::move(comm)), sums_(std::move(sums)) {}

  const MessageSums& sums() const { return *sums_->sums(); }

 protected:
  std::shared_ptr<Communicator> wrap(std::shared_ptr<Communicator> group) const override {
    auto sums = std::make_shared<GroupSums>(sums_->sums(), group->all_gather_value(sums_->world_rank()),
                                            group->rank());
    return std::make_shared<SummingCommunicator>(std::move(group), std::move(sums));
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override {
    sums_->send_to_others(bytes_of(in));
    return then(inner().all_gather(in, out), [sums = sums_, out] { sums->receive_pieces(out); });
  }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override {
    sums_->send_pieces(in);
    return then(inner().all_to_all(in, out), [sums = sums_, out] { sums->receive_pieces(out); });
  }
  Work broadcast_impl(const Tensor& inout, int root) override {
    if (rank() == root) {
      sums_->send_to_others(bytes_of(inout));
      return inner().broadcast(inout, root);
    }
    return then(inner().broadcast(inout, root),
                [sums = sums_, inout, root] { sums->receive(root, bytes_of(inout)); });
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override {
    sums_->send(peer, bytes_of(tensor));
    return inner().send(tensor, peer, tag);
  }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override {
    return then(inner().recv(tensor, peer, tag),
                [sums = sums_, tensor, peer] { sums->receive(peer, bytes_of(tensor)); });
  }

 private:
  const std::shared_ptr<GroupSums> sums_;
};

}  // namespace

MessageSums::MessageSums(int num_ranks, int num_threads)
    : num_threads_(num_threads),
      sent_(static_cast<std::size_t>(num_ranks)),
      received_(static_cast<std::size_t>(num_ranks)) {}

std::uint64_t MessageSums::sum_of(std::span<const std::byte> message) const {
  return checksum(message, num_threads_);
}

void MessageSums::add_sent(int to, std::uint64_t sum) {
  sent_[static_cast<std::size_t>(to)] += sum;
}

void MessageSums::add_received(int from, std::uint64_t sum) {
  received_[static_cast<std::size_t>(from)] += sum;
}

std::uint64_t MessageSums::difference() const {
  return std::reduce(sent_.begin(), sent_.end()) - std::reduce(received_.begin(), received_.end());
}

std::vector<MessageSums::Path> MessageSums::broken_paths(Communicator& world) const {
  const std::vector<std::uint64_t> sent = world.all_gather_values(std::span<const std::uint64_t>(sent_));
  const std::vector<std::uint64_t> received =
      world.all_gather_values(std::span<const std::uint64_t>(received_));
  std::vector<Path> broken;
  const auto num_ranks = static_cast<int>(sent_.size());
  const auto at = [&](int rank, int peer) { return static_cast<std::size_t>(rank * num_ranks + peer); };
  for (int from = 0; from < num_ranks; ++from) {
    for (int to = 0; to < num_ranks; ++to) {
      if (sent[at(from, to)] != received[at(to, from)]) broken.push_back({.from = from, .to = to});
    }
  }
  return broken;
}

std::shared_ptr<Communicator> with_message_sums(std::shared_ptr<Communicator> comm, int num_threads) {
  std::vector<int> world_ranks(static_cast<std::size_t>(comm->size()));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  auto of_rank = std::make_shared<MessageSums>(comm->size(), num_threads);
  auto sums = std::make_shared<GroupSums>(std::move(of_rank), std::move(world_ranks), comm->rank());
  return std::make_shared<SummingCommunicator>(std::move(comm), std::move(sums));
}

const MessageSums* message_sums(const Communicator& comm) {
  const auto* summing = dynamic_cast<const SummingCommunicator*>(&comm);
  return summing != nullptr ? &summing->sums() : nullptr;
}

}  // namespace trireme
