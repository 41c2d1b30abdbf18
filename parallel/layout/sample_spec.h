// Shape and dtype of a job's samples: enough to run a step without data.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// Shapes of one sample, without the batch dim.
struct SampleSpec {
  Shape input;
  DType input_dtype = DType::kInt32;
  Shape target;
  DType target_dtype = DType::kInt32;
  bool target_weights = false;        // see HostBatch
  std::int64_t target_positions = 0;  // K of HostBatch::target_positions; 0: none
  bool documents = false;             // see HostBatch; input and target are [T] then
  bool timesteps = false;             // these three: see Batch
  Shape condition;                    // [L, D]; rank 0: none
  bool classes = false;
};

}  // namespace trireme
