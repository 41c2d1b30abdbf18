#include "launcher/host/waiting_share.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "launcher/host/elapsed.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsOfATurn = 0.01;  // typical for a stage and micro-batch
constexpr int kTurns = 100;

/// Runs a chain of `steps` additions on each thread. Returns seconds.
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

/// Number of steps that take about kSecondsOfATurn when undisturbed.
std::int64_t steps_of_a_turn() {
  constexpr std::int64_t kTrial = 1 << 18;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) fastest = std::min(fastest, work(1, kTrial));
  return static_cast<std::int64_t>(kTrial * kSecondsOfATurn / std::max(fastest, 1e-6));
}

}  // namespace

double measure_waiting_share(Communicator& comm, const SharingRanks& sharing) {
  const int computing = std::clamp(sharing.cores / sharing.threads, 1, comm.size());
  const int waiting = comm.size() - computing;
  if (waiting == 0) return 0;
  const std::int64_t steps = comm.all_gather_value(steps_of_a_turn())[0];
  std::mt19937 random;  // same seed on every rank
  std::vector<int> order(static_cast<std::size_t>(comm.size()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> turns;  // of this rank
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
    const auto place = std::ranges::find(order, comm.rank()) - order.begin();
    if (place < computing) turns.push_back(work(sharing.threads, steps));
    comm.barrier();
  }
  const double unhindered = turns.empty() ? 1 : std::ranges::min(turns);
  const double mean =
      turns.empty() ? 1
                    : std::accumulate(turns.begin(), turns.end(), 0.0) / static_cast<double>(turns.size());
  const std::vector<double> slower = comm.all_gather_value(mean / unhindered);
  const double of_all =
      std::accumulate(slower.begin(), slower.end(), 0.0) / static_cast<double>(slower.size());
  return std::clamp((of_all - 1) * sharing.cores / waiting, 0.0, 1.0);
}

}  // namespace trireme
