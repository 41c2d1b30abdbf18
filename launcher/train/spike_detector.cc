#include "launcher/train/spike_detector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
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

std::optional<std::string> SpikeDetector::Series::look(const char* name, double value) const {
  const auto limit = bound();
  if (is_high || !limit || value <= *limit) return std::nullopt;
  return fmt::format(
      "the {} is {:.6g}; of the last {} steps the median is {:.6g}, and above {:.6g} it is a spike", name,
      value, values.size(), median({values.begin(), values.end()}), *limit);
}

void SpikeDetector::Series::add(double value) {
  const auto limit = bound();
  is_high = limit && value > *limit;
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
}

std::optional<std::string> SpikeDetector::look(double loss, double grad_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return std::nullopt;
  if (loss_.is_high || grad_norm_.is_high) return std::nullopt;  // it goes on
  auto of_norm = grad_norm_.look("gradient norm", grad_norm);
  return of_norm ? of_norm : loss_.look("loss", loss);
}

std::optional<std::string> SpikeDetector::add(double loss, double grad_norm) {
  auto spike = look(loss, grad_norm);
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return spike;
  loss_.add(loss);
  grad_norm_.add(grad_norm);
  return spike;
}

}  // namespace trireme
