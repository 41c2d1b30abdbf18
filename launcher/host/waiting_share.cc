#include "launcher/host/waiting_share.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsOfWork = 0.15;
constexpr int kTimes = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// So many steps of a chain of additions, on each thread. Returns seconds.
double work(int threads, std::int64_t steps) {
  const Clock::time_point start = Clock::now();
  const auto chain = [steps] {
    volatile double sum = 0;
    for (std::int64_t i = 0; i < steps; ++i) sum = sum + 1.0;
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(chain);
  chain();
  for (std::thread& other : others) other.join();
  return seconds_since(start);
}

/// Steps that take kSecondsOfWork alone, or nearly.
std::int64_t steps_of_work() {
  constexpr std::int64_t kTrial = 1 << 20;
  double fastest = work(1, kTrial);
  for (int i = 0; i < 4; ++i) fastest = std::min(fastest, work(1, kTrial));
  return static_cast<std::int64_t>(kTrial * kSecondsOfWork / std::max(fastest, 1e-6));
}

}  // namespace

double measure_waiting_share(Communicator& comm, const SharingRanks& sharing) {
  const int computing = std::clamp(sharing.cores / sharing.threads, 1, comm.size());
  const int waiting = comm.size() - computing;
  if (waiting == 0) return 0;
  const bool computes = comm.rank() < computing;
  const std::int64_t steps = comm.all_gather_value(computes ? steps_of_work() : 0)[0];
  std::vector<double> slower;
  for (int i = 0; i < kTimes; ++i) {
    comm.barrier();
    double beside_sleepers = 1, beside_waiters = 1;
    if (computes) {
      beside_sleepers = work(sharing.threads, steps);
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(2 * kSecondsOfWork));
    }
    comm.barrier();
    if (computes) beside_waiters = work(sharing.threads, steps);
    comm.barrier();
    const std::vector<double> ratios = comm.all_gather_value(beside_waiters / beside_sleepers);
    double mean = 0;
    for (int rank = 0; rank < computing; ++rank) mean += ratios[static_cast<std::size_t>(rank)] / computing;
    slower.push_back(mean);
  }
  std::ranges::nth_element(slower, slower.begin() + kTimes / 2);
  return std::clamp((slower[kTimes / 2] - 1) * sharing.cores / waiting, 0.0, 1.0);
}

}  // namespace trireme
