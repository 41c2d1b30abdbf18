#include "launcher/observe/prometheus_text.h"

#include <fmt/core.h>

#include <cmath>

namespace trireme {
namespace {

std::string_view word_of(MetricType type) {
  constexpr std::string_view kWords[] = {"gauge", "counter", "histogram"};
  return kWords[static_cast<std::size_t>(type)];
}

/// Escapes backslashes and newlines, and quotes in labels.
std::string escaped(std::string_view text, bool in_label) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\\\";
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '"' && in_label) {
      result += "\\\"";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

PrometheusText& PrometheusText::family(std::string_view name, MetricType type, std::string_view help) {
  family_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, word_of(type));
  return *this;
}

PrometheusText& PrometheusText::sample(double value, const MetricLabels& labels) {
  line("", labels, text_of(value));
  return *this;
}

PrometheusText& PrometheusText::sample(std::int64_t value, const MetricLabels& labels) {
  line("", labels, std::to_string(value));
  return *this;
}

PrometheusText& PrometheusText::sample(const Histogram& histogram) {
  std::int64_t below = 0;
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    below += histogram.counts[b];
    const bool last = b == Histogram::kBounds.size();
    line("_bucket", {{"le", last ? "+Inf" : text_of(Histogram::kBounds[b])}}, std::to_string(below));
  }
  line("_sum", {}, text_of(histogram.sum));
  line("_count", {}, std::to_string(histogram.count));
  return *this;
}

void PrometheusText::line(std::string_view suffix, const MetricLabels& labels, std::string_view value) {
  text_ += family_;
  text_ += suffix;
  char separator = '{';
  for (const MetricLabels* some : {&std::as_const(common_), &labels}) {
    for (const auto& [name, text] : *some) {
      text_ += fmt::format("{}{}=\"{}\"", separator, name, escaped(text, true));
      separator = ',';
    }
  }
  text_ += separator == ',' ? "} " : " ";
  text_ += value;
  text_ += '\n';
}

}  // namespace trireme
