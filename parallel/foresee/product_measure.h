// Measures the algorithms of the products in a job's step: see [Note: measured products] in
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

/// The choices for all products of a step, in every pipeline stage: `how.known`, and the others measured on
/// `how.device`, which must be idle. Each product runs separately on its own random operands, so the model
/// need not fit. Returns `how.known` if the device's library offers no choice.
ProductTable measure_products(const PlannedJob& job, const ProductMeasurement& how);

}  // namespace trireme
