#include "launcher/host/link_rates.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "runtime/context.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kFewBytes = 1 << 10, kManyBytes = 8 << 20;  // that each rank has at the end

/// Seconds of an all-gather and an all-to-all, on average, of the slowest rank; the fastest of some batches.
double time_exchange(const Context& ctx, Communicator& comm, std::int64_t bytes, int calls) {
  const std::int64_t elems = bytes / 4 / comm.size();
  const Tensor all = ctx.zeros({elems * comm.size()}), from = ctx.zeros({elems * comm.size()});
  const Tensor mine = from.slice(0, {elems});
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 6; ++batch) {  // the first finds the peers
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

constexpr int kProduct = 256;  // rows and columns of what is computed beside ranks that wait
constexpr std::chrono::milliseconds kAsleep(600), kBusy(250);

/// Seconds of `runs` products on the ranks that compute, on average; 0 on the others, which wait for them.
double time_beside(const Context& ctx, Communicator& comm, bool computes, bool others_sleep, int runs) {
  const Shape square{kProduct, kProduct};
  const Tensor a = ctx.zeros(square), b = ctx.zeros(square), d = ctx.zeros(square);
  comm.barrier();
  const Clock::time_point start = Clock::now();
  for (int i = 0; computes && i < runs; ++i) ctx.run(MatmulArgs{.a = a, .b = b, .d = d});
  const double seconds = computes ? std::chrono::duration<double>(Clock::now() - start).count() : 0;
  if (!computes && others_sleep) std::this_thread::sleep_for(kAsleep);
  comm.barrier();
  double sum = 0;
  for (const double one : comm.all_gather_value(seconds)) sum += one;
  return sum;
}

}  // namespace

double measure_waiting_share(const RankDevice& rank, int threads, int cores) {
  Communicator& comm = *rank.comm;
  const int busy = std::max(cores / threads, 1);
  if (comm.size() <= busy) return 0;
  const Context ctx = Context::create(rank.device, threads);
  const bool computes = comm.rank() < busy;
  constexpr int kFew = 20;
  const double a_run = time_beside(ctx, comm, computes, true, kFew) / busy / kFew;
  const int runs = std::max(1, static_cast<int>(std::chrono::duration<double>(kBusy).count() / a_run));
  std::vector<double> shares;
  for (int round = 0; round < 5; ++round) {
    const double asleep = time_beside(ctx, comm, computes, true, runs);
    const double waiting = time_beside(ctx, comm, computes, false, runs);
    shares.push_back((waiting / asleep - 1) * busy / (comm.size() - busy));
  }
  std::ranges::sort(shares);
  return std::clamp(shares[shares.size() / 2], 0.0, 1.0);
}

LinkRates measure_link(const RankDevice& rank) {
  Communicator& comm = *rank.comm;
  const Context ctx = Context::create(rank.device, 1);
  if (ctx.backend->native_stream != nullptr) comm.bind_stream(ctx.backend->native_stream(ctx.exec));
  const double size = comm.size();
  const double few_s = time_exchange(ctx, comm, kFewBytes, 100);
  const double many_s = time_exchange(ctx, comm, kManyBytes, 4);
  const double bytes = (size - 1) / size * static_cast<double>(kManyBytes - kFewBytes);
  return {.latency_us = few_s * 1e6 / std::log2(size), .gb_s = bytes * 1e-9 / std::max(many_s - few_s, 1e-9)};
}

}  // namespace trireme
