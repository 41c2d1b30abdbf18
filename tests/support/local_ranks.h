// Several ranks in one test process, each in its own thread with its own context.
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/local.h"
#include "runtime/context.h"

namespace trireme {

struct LocalRank {
  std::shared_ptr<Communicator> comm;
  Context ctx;
};

/// Runs rank_main on `num_ranks` threads, each with a context on the cpu device with `num_threads` threads.
/// Rethrows the first failure with "rank R: " in front. Use EXPECT_* in rank_main: an ASSERT_* ends only its
/// own rank, and the others then fail in a wait.
inline void run_local_contexts(int num_ranks, const std::function<void(LocalRank&)>& rank_main,
                               int num_threads = 1) {
  run_local_ranks(num_ranks, [&](std::shared_ptr<Communicator> comm) {
    LocalRank rank{std::move(comm), Context::create(Device{DeviceType::kCpu, 0}, num_threads)};
    rank_main(rank);
  });
}

}  // namespace trireme
