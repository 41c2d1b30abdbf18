#include "parallel/foresee/block_work.h"

#include <algorithm>

#include "parallel/layout/shapes_only.h"

namespace trireme {
namespace {

// The meta device has no streams: here its place is taken by the sum.
void add(const KernelContext& exec, double operations) {
  *static_cast<double*>(exec.stream) += operations;
}

void count_matmul(const KernelContext& exec, const MatmulArgs& args) {
  const auto inner =
      static_cast<double>(args.transpose_a == Transpose::kYes ? args.a.shape[0] : args.a.shape[1]);
  add(exec, 2.0 * static_cast<double>(args.d.num_elems()) * inner);
}

// Two products over the context for each element of the output.
void count_attention(const KernelContext& exec, const AttentionFwdArgs& args) {
  const double pairs = 4.0 * static_cast<double>(args.out.num_elems() * args.out.shape[1]);
  add(exec, args.causal ? pairs / 2 : pairs);
}

void count_conv2d(const KernelContext& exec, const Conv2dFwdArgs& args) {
  const auto weights = static_cast<double>(args.weight.num_elems() / args.weight.shape[0]);
  add(exec, 2.0 * static_cast<double>(args.y.num_elems()) * weights);
}

Backend counting_backend() {
  Backend backend = meta_backend();
  backend.matmul = count_matmul;
  backend.attention_fwd = count_attention;
  backend.conv2d_fwd = count_conv2d;
  return backend;
}

}  // namespace

std::vector<double> count_block_work(const BlockList& blocks, const SampleSpec& sample) {
  const Backend backend = counting_backend();
  double operations = 0.0;
  Context ctx = Context::create({DeviceType::kMeta}, 1, std::nullopt, &backend);
  ctx.exec.stream = &operations;
  ctx.training = true;  // norms take their statistics from the batch
  Batch batch{.inputs = ctx.empty(sample.input.batched(1), sample.input_dtype),
              .targets = ctx.empty(sample.target.batched(1), DType::kInt32)};
  if (sample.target_weights) batch.target_weights = ctx.empty(sample.target.batched(1), DType::kFloat32);
  std::vector<double> work;
  Activations activations;
  for (const auto& block : blocks) {
    ShapesOnly parameters(ctx, *block);
    ctx.parameters = &parameters;
    operations = 0.0;
    activations = block->forward(ctx, activations, batch);
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
