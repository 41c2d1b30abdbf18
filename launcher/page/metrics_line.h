// A line of metrics.jsonl as named numbers. A run of weeks has millions of lines; this scanner is several
// times faster than a parser that builds a tree for each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct MetricsLine {
  struct Value {
    std::string name;  // "loss"; in an object, "memory.parameters"
    double value = 0;  // NaN: null, a number that was not finite
  };
  /// A line with more numbers, or with more rank times than RankTimes lists, is damaged.
  static constexpr std::size_t kMaxValues = 512;
  std::int64_t step = 0;
  bool skipped = false;
  std::vector<Value> values;         // in file order, without the step
  std::vector<double> rank_step_ms;  // by rank; empty where the line has none

  const double* find(std::string_view name) const;
};

/// Parses a line without its newline. Returns false if the line is damaged or its step is below 1; `line` is
/// then unspecified. Strings, and values nested deeper than one object or array, are skipped.
bool read_metrics_line(std::string_view text, MetricsLine& line);

}  // namespace trireme
