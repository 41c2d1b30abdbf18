// Follows the metrics.jsonl of a run: reads what was appended since the last poll, and keeps what a page
// shows.
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

/// A set of steps, stored as ranges.
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

/// The metrics of a run, in bounded memory.
struct RunCurves {
  struct Named {
    std::string name;  // field: "loss", "memory.parameters"
    Curve curve;
    double last = 0;  // NaN: not finite
  };
  struct RankTime {
    double last_ms = 0, mean_ms = 0;  // mean_ms is exponential, over about 20 lines
  };
  std::vector<Named> curves;
  std::vector<RankTime> ranks;  // by rank; empty if the lines have no rank times
  std::int64_t last_step = 0;   // 0: none yet
  StepRanges skipped, not_finite;
  std::deque<std::int64_t> restarts;  // steps at which the run began again, newest last

  const Named* find(std::string_view name) const;
};

/// Checksums of the newest lines of a file. Compared with a file that replaced it, they show the first line
/// that differs.
class LineSums {
 public:
  static constexpr std::size_t kMaxLines = 1 << 18;

  void add(std::string_view line);
  std::size_t num_lines() const { return first_ + sums_.size(); }
  /// False only if line `i` is known to differ; lines older than kMaxLines count as equal.
  bool may_be(std::size_t i, std::string_view line) const;

 private:
  std::size_t first_ = 0;  // line of sums_.front()
  std::deque<std::uint32_t> sums_;
};

class RunReader {
 public:
  /// `folder`: a run's output folder. Its metrics.jsonl may not exist yet.
  explicit RunReader(std::filesystem::path folder);

  struct News {
    bool anew = false;               // older steps changed: everything read before is invalid
    std::vector<MetricsLine> lines;  // appended lines; empty if `anew`
  };
  /// Reads what was appended. An unfinished line is left for the next poll, a damaged one is skipped. A file
  /// that was replaced or shortened, for example by a run that resumes, is read from its beginning. Does not
  /// throw: an unreadable file counts as empty. A poll ends after kMaxLookBytes, so that no file delays the
  /// other runs. A file with a line longer than kMaxLineBytes is no metrics file and is not read further.
  News poll();

  /// True if the last poll stopped at kMaxLookBytes, so the next one finds more.
  bool has_more() const { return has_more_; }

  const std::filesystem::path& folder() const { return folder_; }
  const RunCurves& curves() const { return curves_; }
  std::uint64_t num_damaged_lines() const { return num_damaged_; }
  /// Counted from 1; 0: no line is damaged.
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
  std::int64_t offset_ = 0;  // end of the last whole line
  std::string tail_;         // the bytes before offset_
  // index in `curves` of each value of a line; usually the same for all lines
  std::vector<std::size_t> positions_;
  LineSums sums_;  // of the lines before offset_
  std::uint64_t num_damaged_ = 0, first_damaged_ = 0;
  bool has_more_ = false;
  bool is_foreign_ = false;  // it has a line that no run writes

  /// State while a file is read that replaced another one.
  struct Comparison {
    LineSums former;
    std::int64_t first_changed_step = 0;  // 0: none
  };
  Comparison* comparison_ = nullptr;
};

}  // namespace trireme
