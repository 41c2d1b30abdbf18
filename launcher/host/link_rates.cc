#include "launcher/host/link_rates.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "runtime/context.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
// Per rank, after the exchange. Links between GPUs reach their rate with more.
constexpr std::int64_t kFewBytes = 1 << 10, kManyHostBytes = 8 << 20, kManyGpuBytes = 256 << 20;

/// Mean seconds of an all-gather and an all-to-all on the slowest rank; the fastest of several batches.
double time_exchange(const Context& ctx, Communicator& comm, std::int64_t bytes, int calls) {
  const std::int64_t elems = bytes / 4 / comm.size();
  const Tensor all = ctx.zeros({elems * comm.size()}), from = ctx.zeros({elems * comm.size()});
  const Tensor mine = from.slice(0, {elems});
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 6; ++batch) {  // the first one connects the peers
    ctx.backend->synchronize(ctx.exec);
    comm.barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      comm.all_gather(mine, all).wait();
      comm.all_to_all(from, all).wait();
    }
    ctx.backend->synchronize(ctx.exec);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fastest = std::min(fastest, std::ranges::max(comm.all_gather_value(seconds)));
  }
  return fastest / (2 * calls);
}

}  // namespace

LinkRates measure_link(const RankDevice& rank) {
  Communicator& comm = *rank.comm;
  const Context ctx = Context::create(rank.device, 1);
  if (ctx.backend->native_stream != nullptr) comm.bind_stream(ctx.backend->native_stream(ctx.exec));
  const double size = comm.size();
  const std::int64_t many = traits(rank.device.type).host_memory ? kManyHostBytes : kManyGpuBytes;
  const double few_s = time_exchange(ctx, comm, kFewBytes, 100);
  const double many_s = time_exchange(ctx, comm, many, 4);
  const double bytes = (size - 1) / size * static_cast<double>(many - kFewBytes);
  return {.latency_us = few_s * 1e6 / std::log2(size), .gb_s = bytes * 1e-9 / std::max(many_s - few_s, 1e-9)};
}

}  // namespace trireme
