// Measures the algorithms of the products that a job's step is made of: see [Note: measured products] in
// kernels/backend_products.h.
#pragma once

#include "kernels/backend_products.h"
#include "parallel/foresee/predict.h"

namespace trireme {

struct ProductMeasurement {
  Device device;
  int threads = 1;
  ProductTable known;  // not measured again
};

/// The choices of all products of a step, of every stage of a pipeline: those known, and the others measured
/// on `how.device`, which must be idle. Each runs on random operands of its own, a call at a time, so the
/// model need not fit. Returns what is known where the device's library offers no choice.
ProductTable measure_products(const PlannedJob& job, const ProductMeasurement& how);

}  // namespace trireme
