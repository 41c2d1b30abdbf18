#include "parallel/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// MPI's guaranteed minimum for the largest tag.
constexpr int kMaxTag = 32767;

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", name(tensor.dtype()), tensor.shape().to_string());
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.address());
  const auto* b_begin = static_cast<const std::byte*>(b.address());
  return a_begin < b_begin + b.size_bytes() && b_begin < a_begin + a.size_bytes();
}

// Adds the duration of its scope to a sum.
class ScopeTimer {
 public:
  explicit ScopeTimer(double& sum_ms) : sum_ms_(sum_ms) {}
  ScopeTimer(const ScopeTimer&) = delete;
  ScopeTimer& operator=(const ScopeTimer&) = delete;
  ~ScopeTimer() {
    sum_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& sum_ms_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Marks the rank as waiting on its status line.
class WaitScope {
 public:
  explicit WaitScope(RankStatus* status) : status_(status) {
    if (status_ != nullptr) status_->begin_wait();
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
  ~WaitScope() {
    if (status_ != nullptr) status_->end_wait();
  }

 private:
  RankStatus* status_;
};

}  // namespace

std::string naming_rank(int rank, const std::string& message) {
  for (const char* end : {", ", ": "}) {
    if (message.find(fmt::format("rank {}{}", rank, end)) != std::string::npos) return message;
  }
  return fmt::format("rank {}: {}", rank, message);
}

Work::Work(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)), num_exceptions_(std::uncaught_exceptions()) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    finish_noexcept();
    impl_ = std::move(other.impl_);
    state_ = std::move(other.state_);
    held_ = std::move(other.held_);
    num_exceptions_ = other.num_exceptions_;
  }
  return *this;
}

Work::~Work() {
  finish_noexcept();
}

void Work::wait() {
  // Taken out first: after a failure nothing is left to wait for, and the buffers are freed.
  const std::array<Tensor, 2> held = std::exchange(held_, {});
  const std::unique_ptr<Impl> impl = std::move(impl_);
  if (!impl) return;
  if (!state_) return impl->wait();
  const ScopeTimer timer(state_->exposed_ms);
  const WaitScope wait(state_->status.get());
  if (state_->observer != nullptr) state_->observer->begin_wait();
  impl->wait();
  if (state_->observer != nullptr) state_->observer->end_wait();
}

void Work::finish_noexcept() noexcept {
  if (!impl_) return;
  if (std::uncaught_exceptions() > num_exceptions_) {
    impl_->abandon();
    impl_.reset();
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    log_error(std::string("communication that nobody waited for failed: ") + error.what());
  }
}

std::int64_t sent_bytes_of(CallKind call, std::int64_t full_bytes, int size) {
  switch (call) {
    case CallKind::kAllReduce:
      return 2 * full_bytes * (size - 1) / size;
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kAllGatherValues:
    case CallKind::kAllToAll:
    case CallKind::kBroadcast:
      return full_bytes * (size - 1) / size;
    case CallKind::kSend:
      return full_bytes;
    case CallKind::kRecv:
    case CallKind::kBarrier:
    case CallKind::kAllGatherStrings:
    case CallKind::kSplit:
      return 0;
  }
  return 0;
}

void Communicator::check_tensor(CallKind call, const char* role, const Tensor& tensor) const {
  TRIREME_CHECK(tensor.defined(), "{} on rank {} of {}: {} is an undefined tensor", name(call), rank(),
                size(), role);
  TRIREME_CHECK(tensor.device().type == device_type(),
                "{} on rank {} of {}: {} {} lives on {}, but the {} communicator works on {} memory",
                name(call), rank(), size(), role, describe(tensor), to_string(tensor.device()), kind(),
                name(device_type()));
}

void Communicator::check_pair(CallKind call, const Tensor& in, const Tensor& out, std::int64_t in_pieces,
                              std::int64_t out_pieces) const {
  check_tensor(call, "in", in);
  check_tensor(call, "out", out);
  TRIREME_CHECK(in.dtype() == out.dtype(), "{} on rank {} of {}: in {} and out {} differ in dtype",
                name(call), rank(), size(), describe(in), describe(out));
  TRIREME_CHECK(in.num_elems() * out_pieces == out.num_elems() * in_pieces,
                "{} on rank {} of {}: in {} and out {} must hold elements in proportion {} : {}, not {} : {}",
                name(call), rank(), size(), describe(in), describe(out), in_pieces, out_pieces,
                in.num_elems(), out.num_elems());
}

void Communicator::check_reducible(CallKind call, const Tensor& tensor) const {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kFloat32 || dtype == DType::kInt32 || dtype == DType::kUInt8) return;
  throw Error(ErrorCode::kUnsupported,
              "{} on rank {} of {}: {} cannot be reduced by the {} communicator; reduce in fp32", name(call),
              rank(), size(), describe(tensor), kind());
}

void Communicator::check_message(CallKind call, const Tensor& tensor, int peer, int tag) const {
  TRIREME_CHECK(peer >= 0 && peer < size() && peer != rank(),
                "{} on rank {} of {}: peer {} of tensor {} must be another rank of the group", name(call),
                rank(), size(), peer, describe(tensor));
  TRIREME_CHECK(tag >= 0 && tag <= kMaxTag, "{} on rank {} of {}: tag {} of tensor {} is outside of [0, {}]",
                name(call), rank(), size(), tag, describe(tensor), kMaxTag);
  const bool sends = call == CallKind::kSend;
  const MessageChannel channel{
      .source = sends ? rank() : peer, .destination = sends ? peer : rank(), .tag = tag};
  TRIREME_CHECK(open_channels_.contains(channel),
                "{} on rank {} of {}: the channel from rank {} to rank {} with tag {} is not open: name it "
                "in open_channels first",
                name(call), rank(), size(), channel.source, channel.destination, tag);
}

void Communicator::open_channels(const std::vector<MessageChannel>& channels) {
  std::vector<MessageChannel> fresh;
  for (const MessageChannel& channel : channels) {
    const auto is_rank = [&](int r) { return r >= 0 && r < size(); };
    TRIREME_CHECK(is_rank(channel.source) && is_rank(channel.destination) &&
                      channel.source != channel.destination && channel.tag >= 0 && channel.tag <= kMaxTag,
                  "open_channels on rank {} of {}: no channel leads from rank {} to rank {} with tag {}",
                  rank(), size(), channel.source, channel.destination, channel.tag);
    const bool is_new = !open_channels_.contains(channel) && std::ranges::find(fresh, channel) == fresh.end();
    if (is_new) fresh.push_back(channel);
  }
  if (!fresh.empty()) open_channels_impl(fresh);
  open_channels_.insert(fresh.begin(), fresh.end());
}

void Communicator::count(CallKind call, std::int64_t full_bytes) {
  traffic_.sent_bytes += sent_bytes_of(call, full_bytes, size());
  ++traffic_.num_calls;
}

template <class Post>
Work Communicator::start(Post post, const Tensor& a, const Tensor& b) {
  const ScopeTimer timer(state_->exposed_ms);
  Work work = post();
  work.state_ = state_;
  work.held_ = {a, b};
  return work;
}

Work Communicator::all_reduce(const Tensor& inout, ReduceOp op) {
  check_tensor(CallKind::kAllReduce, "inout", inout);
  check_reducible(CallKind::kAllReduce, inout);
  count(CallKind::kAllReduce, inout.size_bytes());
  return start([&] { return all_reduce_impl(inout, op); }, inout);
}

Work Communicator::reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op) {
  check_pair(CallKind::kReduceScatter, in, out, size(), 1);
  check_reducible(CallKind::kReduceScatter, in);
  TRIREME_CHECK(!overlap(in, out), "reduce_scatter on rank {} of {}: in {} and out {} share memory", rank(),
                size(), describe(in), describe(out));
  count(CallKind::kReduceScatter, in.size_bytes());
  return start([&] { return reduce_scatter_impl(in, out, op); }, in, out);
}

Work Communicator::all_gather(const Tensor& in, const Tensor& out) {
  check_pair(CallKind::kAllGather, in, out, 1, size());
  const bool own_piece = in.address() == static_cast<std::byte*>(out.address()) + rank() * in.size_bytes();
  TRIREME_CHECK(own_piece || !overlap(in, out),
                "all_gather on rank {} of {}: in {} shares memory with out {} but is not its piece {}",
                rank(), size(), describe(in), describe(out), rank());
  count(CallKind::kAllGather, out.size_bytes());
  return start([&] { return all_gather_impl(in, out); }, in, out);
}

Work Communicator::all_to_all(const Tensor& in, const Tensor& out) {
  check_pair(CallKind::kAllToAll, in, out, 1, 1);
  TRIREME_CHECK(in.num_elems() % size() == 0,
                "all_to_all on rank {} of {}: in {} and out {} cannot be cut into {} equal pieces", rank(),
                size(), describe(in), describe(out), size());
  TRIREME_CHECK(!overlap(in, out), "all_to_all on rank {} of {}: in {} and out {} share memory", rank(),
                size(), describe(in), describe(out));
  count(CallKind::kAllToAll, out.size_bytes());
  return start([&] { return all_to_all_impl(in, out); }, in, out);
}

Work Communicator::broadcast(const Tensor& inout, int root) {
  check_tensor(CallKind::kBroadcast, "inout", inout);
  TRIREME_CHECK(root >= 0 && root < size(), "broadcast on rank {} of {}: root {} of tensor {} is no rank",
                rank(), size(), root, describe(inout));
  count(CallKind::kBroadcast, inout.size_bytes());
  return start([&] { return broadcast_impl(inout, root); }, inout);
}

Work Communicator::send(const Tensor& tensor, int peer, int tag) {
  check_tensor(CallKind::kSend, "tensor", tensor);
  check_message(CallKind::kSend, tensor, peer, tag);
  count(CallKind::kSend, tensor.size_bytes());
  return start([&] { return send_impl(tensor, peer, tag); }, tensor);
}

Work Communicator::recv(const Tensor& tensor, int peer, int tag) {
  check_tensor(CallKind::kRecv, "tensor", tensor);
  check_message(CallKind::kRecv, tensor, peer, tag);
  count(CallKind::kRecv, tensor.size_bytes());
  return start([&] { return recv_impl(tensor, peer, tag); }, tensor);
}

void Communicator::barrier() {
  count(CallKind::kBarrier, 0);
  const WaitScope wait(state_->status.get());
  barrier_impl();
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& text) {
  count(CallKind::kAllGatherStrings, 0);
  const WaitScope wait(state_->status.get());
  return all_gather_strings_impl(text);
}

void Communicator::all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all) {
  count(CallKind::kAllGatherValues, static_cast<std::int64_t>(all.size()));
  const WaitScope wait(state_->status.get());
  all_gather_values_impl(mine, all);
}

}  // namespace trireme
