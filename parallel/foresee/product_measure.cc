#include "parallel/foresee/product_measure.h"

#include <set>
#include <string>
#include <string_view>

#include "parallel/foresee/op_calls.h"
#include "parallel/foresee/random_operands.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Convolutions are products if kernels have one pixel, or if windows are gathered. Chunks of a sum are
// separate products.
bool may_be_product(std::string_view op) {
  return op == MatmulArgs::kName || op == ProductSumArgs::kName || op == Conv2dFwdArgs::kName ||
         op == Conv2dBwdDataArgs::kName || op == Conv2dBwdWeightArgs::kName;
}

}  // namespace

ProductTable measure_products(const PlannedJob& job, const ProductMeasurement& how) {
  const Context ctx = Context::create(how.device, how.threads);
  if (ctx.backend->product_choices == nullptr) return how.known;
  ProductChoices& choices = ctx.backend->product_choices(ctx.exec);
  choices.use(how.known);
  choices.measure();
  const RandomOperands operands(ctx);
  std::set<std::string> done;  // finished problems
  const Mesh mesh = mesh_of(job.num_ranks, job.options.layout.pipeline, job.options.layout.tensor);
  for (int stage = 0; stage < job.options.layout.pipeline; ++stage) {
    const StepCalls step = record_step(job, mesh.rank({{Axis::kPipeline, stage}}));
    for (const OpCall& call : step.calls) {
      if (!may_be_product(call.op) || !done.insert(call.problem).second) continue;
      try {
        call.bind(ctx, operands)();
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("measuring {} {}: {}", call.op, call.operands, error.what()),
                    error.where());
      }
    }
  }
  ctx.backend->synchronize(ctx.exec);
  return choices.table();
}

}  // namespace trireme
