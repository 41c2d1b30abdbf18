#include "launcher/config/words.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>

namespace trireme {
namespace {

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [read, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && read == text.data() + text.size();
}

/// "3, 6".
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
  // False for NaN, and for what fp32 rounds to zero.
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

}  // namespace trireme
