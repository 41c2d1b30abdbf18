// Standard output for a person while a job trains: one refreshed line on a terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/observe/metrics.h"

namespace trireme {

/// "1h 02m 03s", "2m 03s", "3s".
std::string format_duration(double seconds);
/// "12.3k", "1.2M", "950".
std::string format_rate(double per_second);
/// "data 1 % fwd 31 % bwd 55 % comm 8 % opt 5 %, rank 2 +1.30 ms": shares of the step's time, and the slowest
/// rank with its time above the others' median. Unmeasured values are left out.
std::string describe_phases(const StepMetrics& metrics);

class Progress {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    std::int64_t first_step = 1;  // of this process
    std::int64_t num_steps = 0;   // of the whole run
    std::int64_t log_every = 10;  // steps between plain lines; the first and the last are always shown
    bool terminal = false;
    std::string throughput_unit = "tokens";
    bool phases = false;    // show the phases of each step and the slowest rank
    bool is_quiet = false;  // print nothing
  };
  Progress(Options options, TimePoint start);

  void step(const StepMetrics& metrics, TimePoint now);
  void eval(std::int64_t step, const EvalMetrics& metrics);
  /// Prints a separate line, which the refreshed line does not overwrite.
  void line(std::string_view text);
  /// Ends the refreshed line.
  void finish();

 private:
  std::string describe(const StepMetrics& metrics, TimePoint now) const;

  Options options_;
  TimePoint start_;
  TimePoint last_refresh_;
  std::size_t shown_width_ = 0;  // of the refreshed line; 0: the cursor is at the start of a clean line
};

}  // namespace trireme
