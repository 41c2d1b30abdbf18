// Writes metrics in Prometheus's text exposition format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/observe/histogram.h"

namespace trireme {

enum class MetricType : std::uint8_t { kGauge, kCounter, kHistogram };

/// Pairs of name and value.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class PrometheusText {
 public:
  /// `common`: labels of every sample.
  explicit PrometheusText(MetricLabels common) : common_(std::move(common)) {}

  /// Begins a family with its HELP and TYPE lines. The following samples belong to it.
  PrometheusText& family(std::string_view name, MetricType type, std::string_view help);

  // A number is written with the fewest digits that restore the same double; NaN and infinities by name.
  PrometheusText& sample(double value, const MetricLabels& labels = {});
  PrometheusText& sample(std::int64_t value, const MetricLabels& labels = {});
  PrometheusText& sample(const Histogram& histogram);

  /// Write a family with one sample.
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    family(name, MetricType::kGauge, help).sample(value);
  }
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    family(name, MetricType::kCounter, help).sample(value);
  }

  const std::string& text() const { return text_; }

 private:
  void line(std::string_view suffix, const MetricLabels& labels, std::string_view value);

  MetricLabels common_;
  std::string family_, text_;
};

}  // namespace trireme
