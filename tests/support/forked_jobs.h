// Runs jobs that may crash or hang in child processes, so that a crash becomes a result and does not end the
// test.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace trireme::testing {

struct ForkOptions {
  int children = 2;
  int seconds = 60;  // limit for one job
};

/// Results of `job` for 0 .. count - 1, in order. If a job dies or takes too long, its result begins with
/// "died" and describes the end. Child k runs jobs k, k + children, ..., and keeps its state between them.
/// Results contain no newline. The calling process must have one thread.
std::vector<std::string> run_forked(std::size_t count, const std::function<std::string(std::size_t)>& job,
                                    const ForkOptions& options = {});

}  // namespace trireme::testing
