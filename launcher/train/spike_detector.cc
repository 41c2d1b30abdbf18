#include "launcher/train/spike_detector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

constexpr double kDeviations = 10.0, kSigmaOfMad = 1.4826, kLeastDeviation = 1.0 / 20;

// For an even number of values, the upper median.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Null while there are too few values.
std::optional<double> bound_of(const SpikeSeries& series) {
  if (series.values.size() < SpikeDetector::kEnough) return std::nullopt;
  std::vector<double> sorted(series.values.begin(), series.values.end());
  const double middle = median(sorted);
  for (double& value : sorted) value = std::abs(value - middle);
  const double deviation = std::max(kSigmaOfMad * median(sorted), std::abs(middle) * kLeastDeviation);
  return middle + kDeviations * deviation;
}

// The text if a spike begins with this value.
std::optional<std::string> look_at(const SpikeSeries& series, const char* name, double value) {
  const auto limit = bound_of(series);
  if (series.is_high || !limit || value <= *limit) return std::nullopt;
  return fmt::format(
      "the {} is {:.6g}; of the last {} steps the median is {:.6g}, and above {:.6g} it is a spike", name,
      value, series.values.size(), median({series.values.begin(), series.values.end()}), *limit);
}

void add_to(SpikeSeries& series, double value) {
  const auto limit = bound_of(series);
  series.is_high = limit && value > *limit;
  series.values.push_back(value);
  if (series.values.size() > SpikeDetector::kWindow) series.values.pop_front();
}

}  // namespace

std::optional<std::string> SpikeDetector::look(double loss, double grad_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return std::nullopt;
  if (loss_.is_high || grad_norm_.is_high) return std::nullopt;  // the same spike continues
  auto of_norm = look_at(grad_norm_, "gradient norm", grad_norm);
  return of_norm ? of_norm : look_at(loss_, "loss", loss);
}

std::optional<std::string> SpikeDetector::add(double loss, double grad_norm) {
  auto spike = look(loss, grad_norm);
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return spike;
  add_to(loss_, loss);
  add_to(grad_norm_, grad_norm);
  return spike;
}

}  // namespace trireme
