#include "launcher/page/run_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "launcher/page/run_files.h"

namespace trireme {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string read_at(int fd, std::int64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t n = ::pread(fd, text.data(), bytes, offset);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

void StepRanges::add(std::int64_t step) {
  ++count_;
  if (!ranges_.empty() && ranges_.back().second + 1 == step) {
    ranges_.back().second = step;
    return;
  }
  ranges_.emplace_back(step, step);
  if (ranges_.size() > kMaxRanges) ranges_.pop_front();
}

void StepRanges::cut(std::int64_t step) {
  for (; !ranges_.empty() && ranges_.back().second >= step; --count_) {
    auto& [first, last] = ranges_.back();
    if (--last < first) ranges_.pop_back();
  }
}

namespace {

std::uint32_t sum_of(std::string_view line) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(line));
}

}  // namespace

void LineSums::add(std::string_view line) {
  sums_.push_back(sum_of(line));
  if (sums_.size() <= kMaxLines) return;
  sums_.pop_front();
  ++first_;
}

bool LineSums::may_be(std::size_t i, std::string_view line) const {
  return i < first_ || i >= num_lines() || sums_[i - first_] == sum_of(line);
}

const RunCurves::Named* RunCurves::find(std::string_view name) const {
  for (const Named& curve : curves) {
    if (curve.name == name) return &curve;
  }
  return nullptr;
}

RunReader::RunReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

void RunReader::forget() {
  RunCurves empty;
  empty.restarts = std::move(curves_.restarts);
  curves_ = std::move(empty);
  offset_ = 0;
  tail_.clear();
  positions_.clear();
  sums_ = {};
  num_damaged_ = first_damaged_ = 0;
  is_foreign_ = false;
}

/// True if the file still begins with what was read before.
bool RunReader::is_continued(int fd) const {
  if (offset_ == 0) return true;
  const auto from = offset_ - static_cast<std::int64_t>(tail_.size());
  return read_at(fd, from, tail_.size()) == tail_;
}

RunReader::News RunReader::poll() {
  News news;
  has_more_ = false;
  const auto path = file_within(folder_, "metrics.jsonl");
  const File file(path.value_or(std::filesystem::path()));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    news.anew = offset_ > 0;
    if (news.anew) forget();
    return news;
  }
  const FileIdentity identity = FileIdentity::of(status);
  if (is_foreign_ && identity.is_same_file(file_)) return news;
  if (is_foreign_) forget();
  if (offset_ > 0 &&
      (!identity.is_same_file(file_) || status.st_size < offset_ || !is_continued(file.get()))) {
    file_ = identity;
    read_anew(file.get(), news);
  } else {
    file_ = identity;
    read_on(file.get(), news);
  }
  if (news.anew) news.lines.clear();
  return news;
}

void RunReader::note_restart(std::int64_t step) {
  curves_.restarts.push_back(step);
  if (curves_.restarts.size() > StepRanges::kMaxRanges) curves_.restarts.pop_front();
}

// A resumed run keeps the lines up to its checkpoint. By the time of this poll it may have appended more
// lines than the old file had. The first line that differs marks the step at which the run began again.
void RunReader::read_anew(int fd, News& news) {
  const std::int64_t former_step = curves_.last_step;
  Comparison comparison{.former = std::move(sums_)};
  forget();
  news.anew = true;
  comparison_ = &comparison;
  read_on(fd, news);
  comparison_ = nullptr;
  if (comparison.first_changed_step > 0) {
    note_restart(comparison.first_changed_step);
  } else if (curves_.last_step < former_step) {
    note_restart(curves_.last_step + 1);
  }
}

void RunReader::read_on(int fd, News& news) {
  std::string text;
  for (std::size_t looked = 0;; looked += kChunkBytes) {
    has_more_ = looked >= kMaxLookBytes && text.empty();
    if (has_more_) return;
    const std::string chunk = read_at(fd, offset_ + static_cast<std::int64_t>(text.size()), kChunkBytes);
    text += chunk;
    const std::size_t end = text.rfind('\n');
    if (end != std::string::npos) {
      const std::string_view whole = std::string_view(text).substr(0, end + 1);
      take_lines(whole, news);
      offset_ += static_cast<std::int64_t>(whole.size());
      tail_ = std::string(whole.substr(whole.size() - std::min(whole.size(), kTailBytes)));
      text.erase(0, end + 1);
    } else if (text.size() >= kMaxLineBytes) {
      is_foreign_ = true;
      note_damaged(sums_.num_lines() + 1);
      return;
    }
    if (chunk.size() < kChunkBytes) return;
  }
}

void RunReader::note_damaged(std::uint64_t number) {
  if (num_damaged_++ == 0) first_damaged_ = number;
}

void RunReader::take_lines(std::string_view text, News& news) {
  // With more new lines, the page reloads everything, which is smaller because curves are thinned.
  constexpr std::size_t kMaxNewLines = 500;
  MetricsLine line;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string_view line_text = text.substr(begin, end - begin);
    const bool changed = comparison_ != nullptr && comparison_->first_changed_step == 0 &&
                         !comparison_->former.may_be(sums_.num_lines(), line_text);
    sums_.add(line_text);
    if (!read_metrics_line(line_text, line)) {
      note_damaged(sums_.num_lines());
      continue;
    }
    if (changed) comparison_->first_changed_step = line.step;
    take(line, news);
    if (news.lines.size() >= kMaxNewLines) news.anew = true;
    if (!news.anew) news.lines.push_back(line);
  }
}

void RunReader::take(const MetricsLine& line, News& news) {
  const double* loss = line.find("loss");
  // An evaluation's line follows the line of its step.
  if (line.step < curves_.last_step || (loss != nullptr && line.step == curves_.last_step)) {
    for (RunCurves::Named& curve : curves_.curves) curve.curve.cut(line.step);
    curves_.skipped.cut(line.step);
    curves_.not_finite.cut(line.step);
    note_restart(line.step);
    news.anew = true;
  }
  curves_.last_step = line.step;
  if (line.skipped) curves_.skipped.add(line.step);
  if (loss != nullptr && !std::isfinite(*loss)) curves_.not_finite.add(line.step);
  positions_.resize(std::max(positions_.size(), line.values.size()));
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    const auto& [name, value] = line.values[i];
    auto& curves = curves_.curves;
    if (positions_[i] >= curves.size() || curves[positions_[i]].name != name) {
      constexpr std::size_t kMaxCurves = 64;
      const auto found =
          std::find_if(curves.begin(), curves.end(), [&](const auto& c) { return c.name == name; });
      if (found == curves.end() && curves.size() == kMaxCurves) continue;
      positions_[i] = static_cast<std::size_t>(found - curves.begin());
      if (found == curves.end()) curves.push_back({.name = name, .curve = {}, .last = 0});
    }
    RunCurves::Named& curve = curves[positions_[i]];
    curve.curve.add(line.step, value);
    curve.last = value;
  }
  constexpr double kNewPart = 0.1;
  const auto& times = line.rank_step_ms;
  if (loss != nullptr && curves_.ranks.size() != times.size()) curves_.ranks.assign(times.size(), {});
  for (std::size_t rank = 0; rank < curves_.ranks.size() && rank < times.size(); ++rank) {
    if (!std::isfinite(times[rank])) continue;
    RunCurves::RankTime& time = curves_.ranks[rank];
    time.mean_ms = time.last_ms == 0 ? times[rank] : (1 - kNewPart) * time.mean_ms + kNewPart * times[rank];
    time.last_ms = times[rank];
  }
}

}  // namespace trireme
