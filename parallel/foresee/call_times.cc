#include "parallel/foresee/call_times.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "parallel/foresee/random_operands.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Sets first_ms, us and workspace_bytes.
void measure(const BoundCall& run, const Context& ctx, const CallTimesOptions& options, CallTime& time) {
  const auto timed = [&](int times) {
    ctx.backend->synchronize(ctx.exec);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) run();
    ctx.backend->synchronize(ctx.exec);
    return ms_since(start);
  };
  ctx.allocator->reset_peak();
  time.first_ms = timed(1);
  time.workspace_bytes = ctx.allocator->stats().peak[MemoryCategory::kWorkspace];
  constexpr double kMostRepeats = 1000;
  const int repeats =
      static_cast<int>(std::clamp(options.ms_a_call / std::max(timed(1), 1e-6), 1.0, kMostRepeats));
  double fastest = timed(repeats);
  for (int batch = 1; batch < options.batches; ++batch) fastest = std::min(fastest, timed(repeats));
  time.us = fastest * 1e3 / repeats;
}

std::vector<CallTime> distinct_calls(const StepCalls& step, std::vector<const OpCall*>& examples) {
  std::vector<CallTime> times;
  for (const OpCall& call : step.calls) {
    const auto same = std::ranges::find_if(times, [&call](const CallTime& other) {
      return other.op == call.op && other.operands == call.operands && other.cost == call.cost &&
             other.spent == call.spent;
    });
    if (same != times.end()) {
      ++same->num_calls;
      continue;
    }
    times.push_back({.op = std::string(call.op),
                     .operands = call.operands,
                     .cost = call.cost,
                     .shape = call.shape,
                     .spent = call.spent,
                     .num_calls = 1});
    examples.push_back(&call);
  }
  return times;
}

}  // namespace

void measure_call_times(const StepCalls& step, const CallTimesOptions& options,
                        const std::function<void(const CallTime&)>& observe) {
  const Context ctx = Context::create(options.device, options.threads);
  const RandomOperands operands(ctx);
  std::vector<const OpCall*> examples;
  std::vector<CallTime> times = distinct_calls(step, examples);
  ProductChoices* const choices = options.measure_products && ctx.backend->product_choices
                                      ? &ctx.backend->product_choices(ctx.exec)
                                      : nullptr;
  if (choices != nullptr) choices->measure();
  for (std::size_t i = 0; i < times.size(); ++i) {
    CallTime& time = times[i];
    const ProductTable known = choices != nullptr ? choices->table() : ProductTable();
    std::string failure;
    try {
      measure(examples[i]->bind(ctx, operands), ctx, options, time);
      if (options.unfused && examples[i]->bind_unfused) {
        CallTime unfused;
        measure(examples[i]->bind_unfused(ctx, operands), ctx, options, unfused);
        time.unfused_us = unfused.us;
      }
    } catch (const Error& error) {
      failure = error.what();
    }
    if (choices != nullptr) {
      std::ranges::set_difference(
          choices->table(), known, std::inserter(time.products, time.products.end()), {},
          [](const auto& entry) { return entry.first; }, [](const auto& entry) { return entry.first; });
    }
    if (options.take_notes) time.notes = options.take_notes();
    if (!failure.empty()) time.notes.push_back("failed: " + failure);
    observe(time);
  }
}

}  // namespace trireme
