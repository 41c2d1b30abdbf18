// Jobs in child processes, for what may crash or hang: a job that does becomes a result, not the end of the
// test.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace trireme::testing {

struct ForkOptions {
  int children = 2;
  int seconds = 60;  // that one job may take
};

/// What `job` returns for 0 .. count - 1, in this order; of a job that dies or takes too long, how it ended,
/// with "died" in front. Child k runs jobs k, k + children, ...: what one of them keeps is there for the
/// next. Results hold no newline. The calling process has one thread.
std::vector<std::string> run_forked(std::size_t count, const std::function<std::string(std::size_t)>& job,
                                    const ForkOptions& options = {});

}  // namespace trireme::testing
