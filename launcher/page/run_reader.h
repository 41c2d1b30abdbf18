// Follows the metrics.jsonl of a run: reads what has been added since the last look, and keeps what a page
// shows of it.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/page/curve.h"
#include "launcher/page/metrics_line.h"
#include "runtime/base/file_identity.h"

namespace trireme {

/// Steps, neighbours as one range.
class StepRanges {
 public:
  static constexpr std::size_t kMaxRanges = 100;  // the newest

  void add(std::int64_t step);
  void cut(std::int64_t step);
  const std::deque<std::pair<std::int64_t, std::int64_t>>& ranges() const { return ranges_; }
  std::int64_t count() const { return count_; }

 private:
  std::deque<std::pair<std::int64_t, std::int64_t>> ranges_;  // first, last
  std::int64_t count_ = 0;
};

/// What the lines of a run say, in bounded memory.
struct RunCurves {
  struct Named {
    std::string name;  // of the field: "loss", "memory.parameters"
    Curve curve;
    double last = 0;  // NaN: not finite
  };
  struct RankTime {
    double last_ms = 0, mean_ms = 0;  // the mean falls off over some 20 lines
  };
  std::vector<Named> curves;
  std::vector<RankTime> ranks;  // by rank; empty: the lines do not say
  std::int64_t last_step = 0;   // 0: none yet
  StepRanges skipped, not_finite;
  std::deque<std::int64_t> restarts;  // steps to which the lines went back, newest last

  const Named* find(std::string_view name) const;
};

/// Checksums of the newest lines of a file, by which a file that took its place shows from where on it
/// differs.
class LineSums {
 public:
  static constexpr std::size_t kMaxLines = 1 << 18;

  void add(std::string_view line);
  std::size_t num_lines() const { return first_ + sums_.size(); }
  /// False only where line `i` was another; older ones than are kept count as equal.
  bool may_be(std::size_t i, std::string_view line) const;

 private:
  std::size_t first_ = 0;  // line of sums_.front()
  std::deque<std::uint32_t> sums_;
};

class RunReader {
 public:
  /// Of a run's output folder, whose metrics.jsonl may not exist yet.
  explicit RunReader(std::filesystem::path folder);

  struct News {
    bool anew = false;               // older steps have changed: what was seen before is void
    std::vector<MetricsLine> lines;  // added, unless `anew`
  };
  /// Reads on. A line that is not finished is left for the next time, a damaged one is left out. A file that
  /// has been replaced or shortened, as by a run that resumes, is read from its beginning. Throws nothing: a
  /// file that cannot be read is one without lines. A look ends after kMaxLookBytes, so that no file holds up
  /// those of other runs. A file with a line of more than kMaxLineBytes is not of a run, and is not read on.
  News poll();

  /// True if the last look ended at its bound: the next one finds more.
  bool has_more() const { return has_more_; }

  const std::filesystem::path& folder() const { return folder_; }
  const RunCurves& curves() const { return curves_; }
  std::uint64_t num_damaged_lines() const { return num_damaged_; }
  /// Counted from 1; 0: none is damaged.
  std::uint64_t first_damaged_line() const { return first_damaged_; }

 private:
  static constexpr std::size_t kTailBytes = 128, kMaxLineBytes = 4 << 20, kMaxLookBytes = 256 << 20;

  bool is_continued(int fd) const;
  void read_on(int fd, News& news);
  void take_lines(std::string_view text, News& news);
  void take(const MetricsLine& line, News& news);
  void note_damaged(std::uint64_t number);
  void note_restart(std::int64_t step);
  void read_anew(int fd, News& news);
  void forget();

  std::filesystem::path folder_;
  RunCurves curves_;
  FileIdentity file_ = {};
  std::int64_t offset_ = 0;             // behind the last whole line
  std::string tail_;                    // bytes before it
  std::vector<std::size_t> positions_;  // of a line's values in `curves`: the same in every line, as a rule
  LineSums sums_;                       // of the lines before offset_
  std::uint64_t num_damaged_ = 0, first_damaged_ = 0;
  bool has_more_ = false;
  bool is_foreign_ = false;  // it has a line that no run has written

  /// A file that is read in place of another.
  struct Comparison {
    LineSums former;
    std::int64_t first_changed_step = 0;  // 0: none
  };
  Comparison* comparison_ = nullptr;
};

}  // namespace trireme
