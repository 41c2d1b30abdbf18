#include "launcher/train/spike_detector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace trireme {
namespace {

constexpr double kDeviations = 10.0, kSigmaOfMad = 1.4826, kLeastDeviation = 1.0 / 20;

// The upper one of an even number.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::optional<double> SpikeDetector::Series::bound() const {
  if (values.size() < kEnough) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  const double middle = median(sorted);
  for (double& value : sorted) value = std::abs(value - middle);
  const double deviation = std::max(kSigmaOfMad * median(sorted), std::abs(middle) * kLeastDeviation);
  return middle + kDeviations * deviation;
}

std::optional<std::string> SpikeDetector::Series::add(const char* name, double value) {
  const auto limit = bound();
  const bool was_high = std::exchange(is_high, limit && value > *limit);
  std::optional<std::string> spike;
  if (is_high && !was_high) {
    spike = fmt::format(
        "the {} is {:.6g}; of the last {} steps the median is {:.6g}, and above {:.6g} it is a spike", name,
        value, values.size(), median({values.begin(), values.end()}), *limit);
  }
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
  return spike;
}

std::optional<std::string> SpikeDetector::add(double loss, double grad_norm) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return std::nullopt;
  const bool goes_on = loss_.is_high || grad_norm_.is_high;
  const auto of_loss = loss_.add("loss", loss);
  const auto of_norm = grad_norm_.add("gradient norm", grad_norm);
  if (goes_on) return std::nullopt;
  return of_norm ? of_norm : of_loss;
}

}  // namespace trireme
