// A parallel loop over independent iterations. For host work beside training; kernels have their own loops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace trireme {

/// Calls do_one(i) for each i below `count`, in any order, on up to `threads` threads including the caller.
/// `do_one` must not throw.
template <class DoOne>
void for_each_index(std::size_t count, int threads, const DoOne& do_one) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) do_one(i);
  };
  std::vector<std::jthread> others;
  const std::size_t num_threads = std::min(static_cast<std::size_t>(std::max(threads, 1)), count);
  others.reserve(num_threads);
  try {
    while (others.size() + 1 < num_threads) others.emplace_back(work);
  } catch (const std::system_error&) {  // the threads already started do all of the work
  }
  work();
}

}  // namespace trireme
