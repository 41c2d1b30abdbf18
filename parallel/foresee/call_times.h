// Times each call of a step in isolation on a real device, for comparison with the roofline.
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
  TimeSpent spent = TimeSpent::kForward;
  std::int64_t num_calls = 0;  // per step
  double first_ms = 0.0;       // includes the choice of an engine, plans and module loading
  double us = 0.0;             // of a later call, averaged over many in a row; operands may stay in a cache
  double unfused_us = 0.0;  // see OpCall::bind_unfused; 0: no epilogue, or CallTimesOptions::unfused is false
  std::int64_t workspace_bytes = 0;
  std::vector<std::string> notes;  // see CallTimesOptions
  ProductTable products;           // measured products: see CallTimesOptions
};

struct CallTimesOptions {
  Device device;
  int threads = 1;
  double ms_a_call = 10.0;  // time spent repeating a call
  int batches = 1;          // with equal numbers of repetitions; the fastest counts
  bool unfused = false;     // also measure products without their epilogues
  /// Returns and clears the messages logged so far: the notes of a call that has run. May be empty.
  std::function<std::vector<std::string>()> take_notes;
  /// Measure the algorithms of products, and use the fastest: see [Note: measured products]. The first call
  /// then takes longer. No effect on devices whose libraries offer no choice.
  bool measure_products = false;
};

/// Measures each distinct call once, in the order of the step, and passes it to `observe`. Operands are
/// random numbers; integers are zero. A call that throws has its message among the notes, and no times.
void measure_call_times(const StepCalls& step, const CallTimesOptions& options,
                        const std::function<void(const CallTime&)>& observe);

}  // namespace trireme
