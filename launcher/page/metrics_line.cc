#include "launcher/page/metrics_line.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "launcher/observe/rank_times.h"

namespace trireme {
namespace {

/// Reads JSON sequentially. Each read_... returns false if the next token is something else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool at_end() {
    skip_space();
    return at_ == end_;
  }
  bool sees(char c) {
    skip_space();
    return at_ != end_ && *at_ == c;
  }
  bool read(char c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }
  /// The raw text between the quotes; escapes are kept.
  bool read_string(std::string_view& text) {
    if (!read('"')) return false;
    const char* begin = at_;
    for (; at_ != end_ && *at_ != '"'; ++at_) {
      if (*at_ == '\\' && ++at_ == end_) return false;
    }
    if (at_ == end_) return false;
    text = {begin, static_cast<std::size_t>(at_ - begin)};
    ++at_;
    return true;
  }
  bool read_word(std::string_view word) {
    skip_space();
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }
  bool read_number(double& number) {
    skip_space();
    if (at_ == end_ || (*at_ != '-' && (*at_ < '0' || *at_ > '9'))) return false;
    const auto [end, error] = std::from_chars(at_, end_, number);
    if (error != std::errc() && error != std::errc::result_out_of_range) return false;
    if (error != std::errc()) number = std::numeric_limits<double>::quiet_NaN();
    at_ = end;
    return true;
  }

 private:
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  const char* at_;
  const char* end_;
};

bool read_scalar(Scanner& scanner, double& number, bool& is_number) {
  is_number = true;
  if (scanner.read_number(number)) return true;
  if (scanner.read_word("null")) {
    number = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  is_number = false;
  std::string_view text;
  if (scanner.sees('"')) return scanner.read_string(text);
  number = scanner.sees('t') ? 1 : 0;
  return scanner.read_word("true") || scanner.read_word("false");
}

/// Skips any value. `depth` bounds the recursion on a damaged line.
bool skip_value(Scanner& scanner, int depth = 0) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) return false;
  double number = 0;
  bool is_number = false;
  const bool object = scanner.sees('{');
  if (!object && !scanner.sees('[')) return read_scalar(scanner, number, is_number);
  const char close = object ? '}' : ']';
  scanner.read(object ? '{' : '[');
  if (scanner.read(close)) return true;
  do {
    std::string_view name;
    if (object && !(scanner.read_string(name) && scanner.read(':'))) return false;
    if (!skip_value(scanner, depth + 1)) return false;
  } while (scanner.read(','));
  return scanner.read(close);
}

bool read_array(Scanner& scanner, std::vector<double>& numbers) {
  scanner.read('[');
  if (scanner.read(']')) return true;
  do {
    double number = 0;
    bool is_number = false;
    if (!read_scalar(scanner, number, is_number)) return false;
    if (numbers.size() == RankTimes::kMaxListed) return false;
    numbers.push_back(is_number ? number : std::numeric_limits<double>::quiet_NaN());
  } while (scanner.read(','));
  return scanner.read(']');
}

bool read_object(Scanner& scanner, std::string_view outer, MetricsLine& line) {
  scanner.read('{');
  if (scanner.read('}')) return true;
  do {
    std::string_view name;
    if (!scanner.read_string(name) || !scanner.read(':')) return false;
    if (scanner.sees('{') || scanner.sees('[')) {
      if (!skip_value(scanner)) return false;
      continue;
    }
    double number = 0;
    bool is_number = false;
    if (!read_scalar(scanner, number, is_number)) return false;
    if (line.values.size() == MetricsLine::kMaxValues) return false;
    if (is_number) line.values.push_back({std::string(outer) + "." + std::string(name), number});
  } while (scanner.read(','));
  return scanner.read('}');
}

bool read_field(Scanner& scanner, std::string_view name, MetricsLine& line) {
  if (scanner.sees('{')) return read_object(scanner, name, line);
  if (scanner.sees('[')) {
    if (name == "rank_step_ms") return read_array(scanner, line.rank_step_ms);
    return skip_value(scanner);
  }
  if (name == "skipped") {
    line.skipped = scanner.read_word("true");
    return line.skipped || scanner.read_word("false");
  }
  double number = 0;
  bool is_number = false;
  if (!read_scalar(scanner, number, is_number)) return false;
  constexpr double kMaxStep = 9e15;  // integers are exact up to here
  if (name == "step") {
    if (!is_number || !(number >= 1 && number <= kMaxStep)) return false;
    line.step = static_cast<std::int64_t>(number);
  } else if (line.values.size() == MetricsLine::kMaxValues) {
    return false;
  } else if (is_number) {
    // Earlier builds wrote an mfu above 1 when they measured the peak too low.
    if (name == "mfu" && number > 1) number = std::numeric_limits<double>::quiet_NaN();
    line.values.push_back({std::string(name), number});
  }
  return true;
}

}  // namespace

const double* MetricsLine::find(std::string_view name) const {
  for (const Value& value : values) {
    if (value.name == name) return &value.value;
  }
  return nullptr;
}

bool read_metrics_line(std::string_view text, MetricsLine& line) {
  line.step = 0;
  line.skipped = false;
  line.values.clear();
  line.rank_step_ms.clear();
  Scanner scanner(text);
  if (!scanner.read('{')) return false;
  do {
    std::string_view name;
    if (!scanner.read_string(name) || !scanner.read(':') || !read_field(scanner, name, line)) return false;
  } while (scanner.read(','));
  return scanner.read('}') && scanner.at_end() && line.step > 0;
}

}  // namespace trireme
