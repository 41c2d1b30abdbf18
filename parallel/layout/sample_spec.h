// What a sample of a job looks like: enough to play a step without data.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// Shapes of one sample, without the batch dim.
struct SampleSpec {
  Shape input;
  DType input_dtype = DType::kInt32;
  Shape target;
  bool target_weights = false;  // see HostBatch
};

}  // namespace trireme
