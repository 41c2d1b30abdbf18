// Times each call of a step by itself on a real device: what its library or kernel needs beside the roofline.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend_products.h"
#include "parallel/foresee/op_calls.h"

namespace trireme {

struct CallTime {
  std::string op, operands;
  OpCost cost;
  OpShape shape;
  std::int64_t num_calls = 0;  // of a step
  double first_ms = 0.0;       // with the choice of an engine, plans and the loading of modules
  double us = 0.0;             // of a later call, on average over many in a row; operands may stay in a cache
  std::int64_t workspace_bytes = 0;
  std::vector<std::string> notes;  // see CallTimesOptions
  ProductTable products;           // what was measured of them: see CallTimesOptions
};

struct CallTimesOptions {
  Device device;
  int threads = 1;
  double ms_a_call = 10.0;  // of repeating it
  int batches = 1;          // of as many repetitions: the fastest counts
  /// What was logged since it was last asked for: the notes of a call that has run. Empty: nobody asks.
  std::function<std::vector<std::string>()> take_notes;
  /// Measure the algorithms of products, and take the fastest: see [Note: measured products]. The first call
  /// takes longer then. No effect on devices whose libraries offer none.
  bool measure_products = false;
};

/// Each distinct call once, in the order of the step; `observe` sees each when it is done. Operands are
/// random numbers, integers zero. A call that throws has its message among the notes and no times.
void measure_call_times(const StepCalls& step, const CallTimesOptions& options,
                        const std::function<void(const CallTime&)>& observe);

}  // namespace trireme
