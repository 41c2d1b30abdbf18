// Fits the coefficients of a cluster to measured steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/cluster/cluster.h"

namespace trireme {

struct MeasuredStep {
  std::function<double(const Cluster&)> predicted_ms;
  double step_ms = 0;  // measured

  /// predicted / measured - 1.
  double error(const Cluster& cluster) const { return predicted_ms(cluster) / step_ms - 1; }
};

/// [Note: calibration] Coefficients are fitted in their logarithms. The loss is the sum over runs of
///     2 (sqrt(1 + (r / scale)^2) - 1),   r = log(predicted / measured),
/// which is about |r| for large r, so that a few outliers do not dominate. Added to it is (stiffness * x /
/// width)^2 / scale^2 for x, the change of a coefficient's logarithm, so that coefficients that the runs do
/// not determine keep their value from the file.
struct CalibrationOptions {
  double scale = 0.06;
  double stiffness = 0.03;
  int most_iterations = 40;
};

/// The cluster with fitted coefficients. Throws Error(kInvalidInput) as the predictions do, and if there are
/// no runs or a measured step is not above 0.
Cluster calibrate(const Cluster& cluster, std::span<const MeasuredStep> runs,
                  const CalibrationOptions& options = {});

/// Throws Error(kInvalidInput) unless `num_runs` runs can be distributed over `num_folds` folds, at least
/// two.
void check_folds(int num_folds, std::int64_t num_runs);

/// predicted / measured - 1 of each run, predicted by a cluster that was calibrated without it. A seeded
/// shuffle distributes the runs over `num_folds` folds: see check_folds().
std::vector<double> cross_validate(const Cluster& cluster, std::span<const MeasuredStep> runs, int num_folds,
                                   std::uint64_t seed, const CalibrationOptions& options = {});

/// The number of coefficients that calibrate() fits.
int num_coefficients(const Cluster& cluster);

}  // namespace trireme
