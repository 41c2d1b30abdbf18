#include "parallel/comm/nccl_job.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(100);
constexpr auto kPollPeriod = std::chrono::milliseconds(1);
// NCCL runs every call of a nonblocking communicator on its own thread, which takes tens of microseconds. So
// the state of a call is polled without sleeping at first, then at growing intervals.
constexpr auto kSpinPeriod = std::chrono::microseconds(200);
constexpr std::chrono::microseconds kFirstSleep{20}, kLongestSleep{1000};
// Unfinished NCCL calls are few and short: an abort waits no longer for one to end.
constexpr auto kAbortPatience = std::chrono::seconds(2);

void log_unless_success(cudaError_t result, const char* call) noexcept {
  // At process exit the driver may be gone before the last handle.
  if (result == cudaSuccess || result == cudaErrorCudartUnloading) return;
  log_error(std::string(call) + " failed: " + cudaGetErrorString(result));
}

// Time limit for finalizing completed work.
constexpr auto kEndLimit = std::chrono::seconds(30);

std::string describe_unfinished(const std::string& text, std::chrono::seconds limit) {
  return fmt::format("{} has not ended within {} s: a rank may have died or be stuck", text, limit.count());
}

[[noreturn]] void throw_unfinished(const std::string& text, std::chrono::seconds limit) {
  throw Error(ErrorCode::kCommunication, describe_unfinished(text, limit));
}

}  // namespace

void check_cuda(cudaError_t result, const std::string& call) {
  if (result == cudaSuccess) return;
  throw Error(ErrorCode::kCommunication, "{} failed: {} ({})", call, cudaGetErrorString(result),
              cudaGetErrorName(result));
}

void check_nccl(ncclResult_t result, const std::string& call) {
  if (result == ncclSuccess) return;
  throw Error(ErrorCode::kCommunication, "{} failed: {}: {} (NCCL_DEBUG=WARN shows more)", call,
              ncclGetErrorString(result), ncclGetLastError(nullptr));
}

CommEvent::CommEvent() {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
}

CommEvent::~CommEvent() {
  log_unless_success(cudaEventDestroy(event_), "cudaEventDestroy");
}

NcclChannel::NcclChannel(const NcclGroup& group, std::chrono::seconds limit,
                         const std::function<void()>& check) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (group.most_blocks > 0) config.maxCTAs = group.most_blocks;
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  try {
    ncclResult_t result = ncclCommInitRankConfig(&comm_, group.size, group.id, group.rank, &config);
    if (result == ncclInProgress) result = await(limit, check);
    const std::string text = "setting up " + group.text;
    if (result == ncclInProgress) throw_unfinished(text, limit);
    check_nccl(result, text);
  } catch (...) {
    if (comm_ != nullptr) abort();
    log_unless_success(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    throw;
  }
}

NcclChannel::~NcclChannel() {
  const bool unwinds = std::uncaught_exceptions() > num_exceptions_;
  const bool clean = !unwinds && !aborted_ && async_error() == ncclSuccess;
  if (clean) {
    // Operations that nobody waited for may still run.
    log_unless_success(cudaStreamSynchronize(stream_), "waiting for the last communication");
    if (run(kEndLimit, [](ncclComm_t comm, cudaStream_t) { return ncclCommFinalize(comm); }) == ncclSuccess) {
      if (ncclCommDestroy(comm_) != ncclSuccess) log_warning("ncclCommDestroy failed");
    } else {
      log_warning("ncclCommFinalize failed");
      abort();
    }
  } else {
    abort();
  }
  log_unless_success(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

void NcclChannel::abort() noexcept {
  // A timeout means that NCCL or the driver hangs in a call. The host communicator ends the process.
  std::unique_lock lock(mutex_, kAbortPatience);
  if (!lock.owns_lock()) return log_error("an NCCL communicator that is in use is not aborted");
  if (std::exchange(aborted_, true)) return;
  if (ncclCommAbort(comm_) != ncclSuccess) log_error("ncclCommAbort failed");
}

ncclResult_t NcclChannel::state() const {
  const std::lock_guard lock(mutex_);
  if (aborted_) return ncclRemoteError;
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm_, &error);
  return result != ncclSuccess ? result : error;
}

ncclResult_t NcclChannel::await(std::chrono::seconds limit, const std::function<void()>& check) const {
  const auto start = Clock::now();
  auto sleep = kFirstSleep;
  for (;;) {
    const ncclResult_t result = state();
    const auto waited = Clock::now() - start;
    if (result != ncclInProgress || waited > limit) return result;
    check();
    if (waited < kSpinPeriod) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 5 / 2, kLongestSleep);
  }
}

ncclResult_t NcclChannel::async_error() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || aborted_) return ncclSuccess;
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm_, &error);
  return result != ncclSuccess ? result : error;
}

NcclJob::NcclJob(std::shared_ptr<Communicator> host, Device device, std::chrono::seconds timeout)
    : host_(std::move(host)), device_(device), timeout_(timeout), watchdog_([this] { watch(); }) {}

NcclJob::~NcclJob() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  watchdog_.join();
}

std::shared_ptr<NcclChannel> NcclJob::make_channel(const NcclGroup& group) {
  auto channel = std::make_shared<NcclChannel>(group, timeout_, [this] { throw_if_failed(); });
  const std::lock_guard lock(mutex_);
  std::erase_if(channels_, [](const auto& known) { return known.expired(); });
  channels_.push_back(channel);
  return channel;
}

void NcclJob::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(ErrorCode::kCommunication, failure_);
}

void NcclJob::check(ncclResult_t result, const std::string& text) const {
  if (result == ncclSuccess) return;
  throw_if_failed();  // an abort makes the call fail with an error of its own
  if (result == ncclInProgress) throw_unfinished(text, timeout_);
  check_nccl(result, text);
}

void NcclJob::await(const CommEvent& done, const std::string& text) const {
  const auto end = NcclChannel::Clock::now() + timeout_;
  for (;;) {
    const cudaError_t state = done.query();
    if (state == cudaSuccess) return;
    throw_if_failed();
    if (state != cudaErrorNotReady) check_cuda(state, text);
    if (NcclChannel::Clock::now() > end) throw_unfinished(text, timeout_);
    std::this_thread::sleep_for(kPollPeriod);
  }
}

void NcclJob::add(std::string text, std::shared_ptr<CommEvent> done) {
  if (recording_) return;
  const std::lock_guard lock(mutex_);
  operations_.push_back({.text = std::move(text),
                         .done = std::move(done),
                         .started = std::chrono::steady_clock::now(),
                         .abandoned = {}});
}

void NcclJob::keep(const std::shared_ptr<CommEvent>& done, std::vector<Tensor> tensors) {
  const std::lock_guard lock(mutex_);
  for (NcclOperation& operation : operations_) {
    if (operation.done == done) operation.abandoned = std::move(tensors);
  }
}

void NcclJob::fail(const Error& error) noexcept {
  std::vector<std::shared_ptr<NcclChannel>> channels;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = error.what();
    for (const auto& channel : channels_) channels.push_back(channel.lock());
  }
  // Send the error first, before peers report their interrupted operations.
  host_->abort(error);
  for (const auto& channel : channels) {
    if (channel) channel->abort();
  }
}

void NcclJob::watch() {
  log_unless_success(cudaSetDevice(device_.index), "cudaSetDevice");
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kWatchPeriod, [this] { return ending_; })) {
    lock.unlock();
    look_after_operations();
    lock.lock();
  }
}

void NcclJob::look_after_operations() {
  std::string problem;
  std::vector<std::shared_ptr<NcclChannel>> channels;
  std::list<NcclOperation> ended;  // their tensors are freed without the lock
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    for (const auto& channel : channels_) channels.push_back(channel.lock());
    const auto now = std::chrono::steady_clock::now();
    for (auto operation = operations_.begin(); operation != operations_.end();) {
      const auto current = operation++;
      const cudaError_t state = current->done->query();
      if (state == cudaSuccess) {
        ended.splice(ended.end(), operations_, current);
      } else if (state != cudaErrorNotReady) {
        problem = fmt::format("{} failed: {}", current->text, cudaGetErrorString(state));
      } else if (problem.empty() && now - current->started > timeout_) {
        problem = describe_unfinished(current->text, timeout_);
      }
    }
  }
  for (const auto& channel : channels) {
    const ncclResult_t error = channel ? channel->async_error() : ncclSuccess;
    if (error == ncclSuccess || error == ncclInProgress || !problem.empty()) continue;
    const std::lock_guard lock(mutex_);
    problem = fmt::format("NCCL reports {} during {}", ncclGetErrorString(error),
                          operations_.empty() ? "no operation" : operations_.front().text);
  }
  if (!problem.empty()) fail(Error(ErrorCode::kCommunication, problem));
}

}  // namespace trireme
