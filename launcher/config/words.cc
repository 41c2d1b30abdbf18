#include "launcher/config/words.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace trireme {
namespace {

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [read, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && read == text.data() + text.size();
}

/// Parses "3, 6".
bool read_list(std::string_view text, std::vector<std::int64_t>& numbers) {
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    const std::size_t first = item.find_first_not_of(' ');
    if (first == std::string_view::npos) return false;
    const std::size_t last = item.find_last_not_of(' ');
    if (!read_number(item.substr(first, last - first + 1), numbers.emplace_back())) return false;
    if (item.size() == text.size()) return true;
    text.remove_prefix(item.size() + 1);
  }
}

}  // namespace

std::string to_word(const PipelineCut& cut) {
  return cut.kind == PipelineCut::Kind::kListed ? fmt::format("{}", fmt::join(cut.firsts, ", "))
                                                : to_word(cut.kind);
}

std::string to_word(const LossScaleChoice& choice) {
  return choice.kind == LossScaleConfig::Kind::kStatic ? fmt::format("{}", choice.scale)
                                                       : to_word(choice.kind);
}

std::string to_word(const std::optional<int>& count) {
  return count ? std::to_string(*count) : "auto";
}

std::string to_word(const Resume& resume) {
  return resume.kind == Resume::Kind::kCheckpoint ? resume.path : to_word(resume.kind);
}

std::string to_word(const TimeoutChoice& timeout) {
  return timeout.learned ? "auto" : fmt::format("{}", timeout.seconds);
}

std::string to_word(const TraceSteps& steps) {
  if (steps.first == steps.last) return std::to_string(steps.first);
  const std::string range = fmt::format("{}-{}", steps.first, steps.last);
  return steps.every == 1 ? range : fmt::format("{}/{}", range, steps.every);
}

bool read_word(std::string_view word, PipelineCut& cut) {
  cut = {};
  if (read_word(word, cut.kind)) return true;
  cut.kind = PipelineCut::Kind::kListed;
  return read_list(word, cut.firsts);
}

bool read_word(std::string_view word, LossScaleChoice& choice) {
  choice = {};
  if (read_word(word, choice.kind)) return true;
  choice.kind = LossScaleConfig::Kind::kStatic;
  // Rejects NaN, and values that fp32 rounds to zero.
  return read_number(word, choice.scale) && static_cast<float>(choice.scale) > 0 &&
         choice.scale <= std::numeric_limits<float>::max();
}

bool read_word(std::string_view word, std::optional<int>& count) {
  count.reset();
  if (word == "auto") return true;
  return read_number(word, count.emplace()) && *count >= 0 && *count <= 256;
}

bool read_word(std::string_view word, Resume& resume) {
  resume = {};
  if (!read_word(word, resume.kind)) resume = {Resume::Kind::kCheckpoint, std::string(word)};
  return true;
}

bool read_word(std::string_view word, TimeoutChoice& timeout) {
  timeout = {};
  timeout.learned = word == "auto";
  return timeout.learned ||
         (read_number(word, timeout.seconds) && timeout.seconds >= 0 && std::isfinite(timeout.seconds));
}

bool read_word(std::string_view word, TraceSteps& steps) {
  steps = {};
  const auto dash = word.find('-'), slash = word.find('/');
  constexpr std::int64_t kEnd = std::int64_t{1} << 31;
  if (!read_number(word.substr(0, std::min(dash, slash)), steps.first) || steps.first >= kEnd) return false;
  steps.last = steps.first;
  if (dash == std::string_view::npos) return steps.first >= 0 && slash == dash;
  const std::string_view rest = word.substr(dash + 1);
  const auto end = rest.find('/');
  if (!read_number(rest.substr(0, end), steps.last)) return false;
  if (end != std::string_view::npos && !read_number(rest.substr(end + 1), steps.every)) return false;
  return steps.first > 0 && steps.last >= steps.first && steps.last < kEnd && steps.every > 0 &&
         steps.every < kEnd;
}

}  // namespace trireme
