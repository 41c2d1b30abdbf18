#include "launcher/host/all_reduce_bandwidth.h"

#include <algorithm>
#include <chrono>

#include "launcher/host/agreement.h"
#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSeconds = 0.25;
constexpr std::int64_t kMostCalls = 1000;

void fill(const Context& ctx, const Tensor& buffer, float value) {
  const std::vector<float> host(static_cast<std::size_t>(buffer.num_elems()), value);
  ctx.backend->copy_from_host(ctx.exec, buffer, host.data());
}

/// Seconds of `calls` all-reduces, on the slowest rank.
double time_calls(const Context& ctx, Communicator& comm, const Tensor& buffer, std::int64_t calls) {
  ctx.backend->synchronize(ctx.exec);
  comm.barrier();
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) comm.all_reduce(buffer, ReduceOp::kSum).wait();
  ctx.backend->synchronize(ctx.exec);
  const double mine = std::chrono::duration<double>(Clock::now() - start).count();
  return std::ranges::max(comm.all_gather_value(mine));
}

AllReduceBandwidth::Size measure(const Context& ctx, Communicator& comm, std::int64_t bytes) {
  const Tensor buffer = ctx.empty({bytes / 4}, DType::kFloat32, MemoryCategory::kCommunication);
  const int n = comm.size();
  // The first call connects the peers. Its sum is checked: 1 + 2 + ... + n.
  fill(ctx, buffer, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(buffer, ReduceOp::kSum).wait();
  for (const float sum : ctx.to_host(buffer)) {
    if (sum == static_cast<float>(n * (n + 1) / 2)) continue;
    throw Error(ErrorCode::kCommunication, "an all-reduce of 1 to {} over {} ranks gave {} on rank {}", n, n,
                sum, comm.rank());
  }
  fill(ctx, buffer, 1e-30f);  // the sums grow with each call
  const double once = time_calls(ctx, comm, buffer, 1);
  const auto calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(kSeconds / once), 1, kMostCalls);
  const double seconds = time_calls(ctx, comm, buffer, calls) / static_cast<double>(calls);
  const double rate = static_cast<double>(bytes) / seconds * 1e-9;
  return {.bytes = bytes,
          .ms = seconds * 1e3,
          .algorithm_gb_per_s = rate,
          .bus_gb_per_s = rate * all_reduce_bus_factor(n)};
}

}  // namespace

double all_reduce_bus_factor(int num_ranks) {
  return 2.0 * (num_ranks - 1) / num_ranks;
}

AllReduceBandwidth measure_all_reduce(const RankDevice& rank) {
  Communicator& comm = *rank.comm;
  AllReduceBandwidth report{
      .communicator = comm.kind(), .device = to_string(rank.device), .num_ranks = comm.size()};
  const Context ctx = Context::create(rank.device, 1);
  if (ctx.backend->native_stream != nullptr) comm.bind_stream(ctx.backend->native_stream(ctx.exec));
  for (const int power : {12, 16, 20, 23, 26}) {
    report.sizes.push_back(measure(ctx, comm, std::int64_t{1} << power));
  }
  return report;
}

}  // namespace trireme
