#include "parallel/layout/block_work.h"

#include <algorithm>

#include "parallel/layout/op_cost.h"
#include "parallel/layout/sample_batch.h"
#include "parallel/layout/shapes_only.h"

namespace trireme {
namespace {

// The meta device has no streams, so `stream` points to the sum.
template <class Args>
void count(const KernelContext& exec, const Args& args) {
  *static_cast<double*>(exec.stream) += operations_of(args);
}

Backend counting_backend() {
  Backend backend = meta_backend();
  backend.ops = OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return count<Args>; });
  return backend;
}

}  // namespace

std::vector<double> count_block_work(const BlockList& blocks, const SampleSpec& sample) {
  const Backend backend = counting_backend();
  double operations = 0.0;
  Context ctx = Context::create({DeviceType::kMeta}, 1, std::nullopt, &backend);
  ctx.exec.stream = &operations;
  ctx.training = true;  // norms take their statistics from the batch
  const Batch batch =
      make_batch(sample, 1, [&](const Shape& shape, DType dtype) { return ctx.empty(shape, dtype); });
  std::vector<double> work;
  Activations activations;
  for (const auto& block : blocks) {
    ShapesOnly parameters(ctx, *block);
    ctx.parameters = &parameters;
    operations = 0.0;
    activations = forward_for_shapes(*block, ctx, activations, batch);
    work.push_back(operations);
  }
  return work;
}

std::vector<double> work_costs(const BlockList& blocks, const SampleSpec& sample) {
  std::vector<double> costs = count_block_work(blocks, sample);
  if (std::ranges::all_of(costs, [](double cost) { return cost == 0.0; })) costs.assign(costs.size(), 1.0);
  return costs;
}

StageMap cut_by_work(const BlockList& blocks, const SampleSpec& sample, int pipeline, int chunks) {
  return cut_evenly(work_costs(blocks, sample), pipeline, chunks);
}

}  // namespace trireme
