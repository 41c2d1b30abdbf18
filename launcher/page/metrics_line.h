// A line of metrics.jsonl as numbers with names. A run of weeks has millions of lines: this reads them
// several times faster than a parser that makes a tree of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct MetricsLine {
  struct Value {
    std::string name;  // "loss"; of objects "memory.parameters"
    double value = 0;  // NaN: null, a number that was not finite
  };
  /// A line with more numbers, or with the times of more ranks than RankTimes lists, is damaged.
  static constexpr std::size_t kMaxValues = 512;
  std::int64_t step = 0;
  bool skipped = false;
  std::vector<Value> values;         // numbers, in the order of the line, without the step
  std::vector<double> rank_step_ms;  // by rank; empty: not in the line

  const double* find(std::string_view name) const;
};

/// Reads a line without its end. False where it is damaged, or has no step from 1 on; `line` is undefined
/// then. Strings, and what is nested deeper than one object or array, are passed over.
bool read_metrics_line(std::string_view text, MetricsLine& line);

}  // namespace trireme
