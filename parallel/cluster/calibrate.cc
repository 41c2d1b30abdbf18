#include "parallel/cluster/calibrate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// One fitted number: all fields of the cluster that share it. They are equal.
struct Coefficient {
  std::vector<double*> places;
  double low, high, width;
  double start;  // of the first field, from the file
};

template <class Part>
void add_coefficients(Part& part, std::span<const ClusterField<Part>> fields,
                      std::vector<Coefficient>& coefficients) {
  for (const ClusterField<Part>& field : fields) {
    if (field.fit_width == 0) continue;
    coefficients.push_back(
        {{&(part.*field.value)}, field.low, field.high, field.fit_width, part.*field.value});
  }
}

void add_families(std::vector<ClusterDevice>& devices, std::vector<Coefficient>& coefficients) {
  for (const ClusterField<ClusterDevice>& field : device_fields()) {
    if (field.fit_width == 0) continue;
    std::vector<std::string> families;
    const std::size_t first = coefficients.size();
    for (ClusterDevice& device : devices) {
      const auto found = std::find(families.begin(), families.end(), device.family);
      if (found != families.end()) {
        coefficients[first + (found - families.begin())].places.push_back(&(device.*field.value));
        continue;
      }
      families.push_back(device.family);
      coefficients.push_back(
          {{&(device.*field.value)}, field.low, field.high, field.fit_width, device.*field.value});
    }
  }
}

std::vector<Coefficient> coefficients_of(Cluster& cluster) {
  std::vector<Coefficient> coefficients;
  add_families(cluster.devices, coefficients);
  for (ClusterLink& link : cluster.links) add_coefficients(link, link_fields(), coefficients);
  add_coefficients(cluster.host, host_fields(), coefficients);
  add_coefficients(cluster.framework, framework_fields(), coefficients);
  return coefficients;
}

/// Damped Gauss-Newton steps (Levenberg 1944, Marquardt 1963) with weights of the robust loss.
class Fit {
 public:
  Fit(const Cluster& cluster, std::span<const MeasuredStep> runs, const CalibrationOptions& options)
      : cluster_(cluster), runs_(runs), options_(options), coefficients_(coefficients_of(cluster_)) {}
  Fit(const Fit&) = delete;

  Cluster run() {
    std::vector<double> x(coefficients_.size(), 0.0);
    std::vector<double> residuals = residuals_at(x);
    double loss = loss_of(residuals, x);
    double damping = 1e-2;
    for (int iteration = 0; iteration < options_.most_iterations && damping < 1e8; ++iteration) {
      const std::vector<double> normal = normal_equations(x, residuals);
      double gain = 0;
      while (damping < 1e8) {
        std::vector<double> moved = x;
        const std::vector<double> step = solve(normal, damping);
        for (std::size_t i = 0; i < x.size(); ++i) moved[i] = clamp(i, x[i] - step[i]);
        const std::vector<double> moved_residuals = residuals_at(moved);
        const double moved_loss = loss_of(moved_residuals, moved);
        if (moved_loss < loss) {
          gain = loss - moved_loss;
          x = moved;
          residuals = moved_residuals;
          loss = moved_loss;
          damping = std::max(damping / 5, 1e-9);
          break;
        }
        damping *= 4;
      }
      constexpr double kEnoughGain = 1e-5;  // of the loss: far below the scatter of measured steps
      if (gain < kEnoughGain * loss) break;
    }
    set(x);
    return cluster_;
  }

 private:
  double clamp(std::size_t i, double x) const {
    const Coefficient& coefficient = coefficients_[i];
    return std::clamp(x, std::log(coefficient.low / coefficient.start),
                      std::log(coefficient.high / coefficient.start));
  }

  void set(const std::vector<double>& x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (double* place : coefficients_[i].places) *place = coefficients_[i].start * std::exp(x[i]);
    }
  }

  std::vector<double> residuals_at(const std::vector<double>& x) {
    set(x);
    std::vector<double> residuals;
    residuals.reserve(runs_.size());
    for (const MeasuredStep& run : runs_) {
      residuals.push_back(std::log(run.predicted_ms(cluster_) / run.step_ms));
    }
    return residuals;
  }

  double prior_weight(std::size_t i) const {
    const double w = options_.stiffness / (coefficients_[i].width * options_.scale);
    return w * w;
  }

  double loss_of(const std::vector<double>& residuals, const std::vector<double>& x) const {
    double loss = 0;
    for (const double r : residuals) loss += 2 * (std::sqrt(1 + std::pow(r / options_.scale, 2)) - 1);
    for (std::size_t i = 0; i < x.size(); ++i) loss += prior_weight(i) * x[i] * x[i];
    return loss;
  }

  /// [n, n + 1]: the matrix, with the gradient as last column.
  std::vector<double> normal_equations(const std::vector<double>& x, const std::vector<double>& residuals) {
    const std::size_t n = x.size(), m = residuals.size();
    constexpr double kStep = 1e-4;
    std::vector<std::vector<double>> slopes(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> moved = x;
      moved[i] += kStep;
      slopes[i] = residuals_at(moved);
      for (std::size_t row = 0; row < m; ++row) slopes[i][row] = (slopes[i][row] - residuals[row]) / kStep;
    }
    std::vector<double> normal(n * (n + 1), 0.0);
    for (std::size_t row = 0; row < m; ++row) {
      const double z = residuals[row] / options_.scale;
      const double weight = 1 / (options_.scale * options_.scale * std::sqrt(1 + z * z));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j)
          normal[i * (n + 1) + j] += weight * slopes[i][row] * slopes[j][row];
        normal[i * (n + 1) + n] += weight * slopes[i][row] * residuals[row];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      normal[i * (n + 1) + i] += prior_weight(i);
      normal[i * (n + 1) + n] += prior_weight(i) * x[i];
    }
    return normal;
  }

  /// Solves a symmetric positive system whose diagonal is raised by `damping`; elimination needs no pivots.
  std::vector<double> solve(std::vector<double> a, double damping) const {
    const std::size_t n = coefficients_.size(), width = n + 1;
    for (std::size_t i = 0; i < n; ++i) a[i * width + i] *= 1 + damping;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t row = i + 1; row < n; ++row) {
        const double factor = a[row * width + i] / a[i * width + i];
        for (std::size_t column = i; column <= n; ++column)
          a[row * width + column] -= factor * a[i * width + column];
      }
    }
    std::vector<double> x(n);
    for (std::size_t i = n; i-- > 0;) {
      double sum = a[i * width + n];
      for (std::size_t column = i + 1; column < n; ++column) sum -= a[i * width + column] * x[column];
      x[i] = sum / a[i * width + i];
    }
    return x;
  }

  Cluster cluster_;
  std::span<const MeasuredStep> runs_;
  CalibrationOptions options_;
  std::vector<Coefficient> coefficients_;  // point into cluster_
};

}  // namespace

Cluster calibrate(const Cluster& cluster, std::span<const MeasuredStep> runs,
                  const CalibrationOptions& options) {
  TRIREME_CHECK(!runs.empty(), "there is no run to calibrate with");
  for (const MeasuredStep& run : runs) {
    TRIREME_CHECK(run.step_ms > 0, "a run to calibrate with needs step_ms above 0");
  }
  return Fit(cluster, runs, options).run();
}

void check_folds(int num_folds, std::int64_t num_runs) {
  TRIREME_CHECK(num_folds >= 2 && num_folds <= num_runs,
                "cross-validation in {} folds needs at least 2 of them and as many runs; there are {}",
                num_folds, num_runs);
}

std::vector<double> cross_validate(const Cluster& cluster, std::span<const MeasuredStep> runs, int num_folds,
                                   std::uint64_t seed, const CalibrationOptions& options) {
  const int num_runs = static_cast<int>(runs.size());
  check_folds(num_folds, num_runs);
  std::vector<int> order(num_runs);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  for (int i = num_runs - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
  std::vector<double> errors(num_runs);
  for (int fold = 0; fold < num_folds; ++fold) {
    std::vector<MeasuredStep> others;
    for (int i = 0; i < num_runs; ++i) {
      if (i % num_folds != fold) others.push_back(runs[order[i]]);
    }
    const Cluster fitted = calibrate(cluster, others, options);
    for (int i = fold; i < num_runs; i += num_folds) {
      errors[order[i]] = runs[order[i]].error(fitted);
    }
  }
  return errors;
}

int num_coefficients(const Cluster& cluster) {
  Cluster copy = cluster;
  return static_cast<int>(coefficients_of(copy).size());
}

}  // namespace trireme
