// The base of communicators that change some calls of another one and forward the rest. message_sums.cc and
// example 06 derive from it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Counts of traffic and waits are the wrapper's own. An override calls the public functions of inner().
class CommunicatorWrapper : public Communicator {
 public:
  explicit CommunicatorWrapper(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {
    show_waits_on(inner_->status());
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string kind() const override { return inner_->kind(); }
  DeviceType device_type() const override { return inner_->device_type(); }
  bool spans_machines() const override { return inner_->spans_machines(); }
  std::vector<int> hosts() const override { return inner_->hosts(); }
  void bind_stream(void* stream) override { inner_->bind_stream(stream); }
  bool records_graphs() const override { return inner_->records_graphs(); }
  void set_recording(bool recording) override { inner_->set_recording(recording); }
  void watch_stream(const std::string& what) override { inner_->watch_stream(what); }
  void abort(const Error& error) noexcept override { inner_->abort(error); }
  void progress_in_background(bool wanted) override { inner_->progress_in_background(wanted); }
  void sleep_while_waiting(bool wanted) override { inner_->sleep_while_waiting(wanted); }
  std::shared_ptr<Communicator> split(int color) override { return wrap(inner_->split(color)); }

 protected:
  /// The wrapper of a group that split() made of inner(). Collective over the group.
  virtual std::shared_ptr<Communicator> wrap(std::shared_ptr<Communicator> group) const = 0;
  Communicator& inner() const { return *inner_; }

  /// `work`, whose wait() also calls `after`, unless it is abandoned.
  static Work then(Work work, std::function<void()> after) {
    if (work.pending()) return Work(std::make_unique<Continued>(std::move(work), std::move(after)));
    after();
    return {};
  }

  Work all_reduce_impl(const Tensor& inout, ReduceOp op) override { return inner_->all_reduce(inout, op); }
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override {
    return inner_->reduce_scatter(in, out, op);
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override { return inner_->all_gather(in, out); }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override { return inner_->all_to_all(in, out); }
  Work broadcast_impl(const Tensor& inout, int root) override { return inner_->broadcast(inout, root); }
  void open_channels_impl(const std::vector<MessageChannel>& channels) override {
    inner_->open_channels(channels);
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override { return inner_->send(tensor, peer, tag); }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override { return inner_->recv(tensor, peer, tag); }
  void barrier_impl() override { inner_->barrier(); }
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override {
    return inner_->all_gather_strings(text);
  }
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(inner_->all_gather_values(mine), all.begin());
  }

 private:
  class Continued final : public Work::Impl {
   public:
    Continued(Work work, std::function<void()> after) : work_(std::move(work)), after_(std::move(after)) {}
    void wait() override {
      work_.wait();
      after_();
    }
    // work_ abandons itself, as its owner does not wait either.
    void abandon() noexcept override {}

   private:
    Work work_;
    std::function<void()> after_;
  };

  const std::shared_ptr<Communicator> inner_;
};

}  // namespace trireme
