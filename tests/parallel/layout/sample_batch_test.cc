#include "parallel/layout/sample_batch.h"

#include <gtest/gtest.h>

#include "parallel/foresee/predict.h"

namespace trireme {
namespace {

std::vector<std::pair<Shape, DType>> specs_of(const Batch& batch) {
  std::vector<std::pair<Shape, DType>> specs;
  for (const Tensor* tensor :
       {&batch.inputs, &batch.targets, &batch.target_weights, &batch.target_positions, &batch.key_bounds,
        &batch.positions, &batch.types, &batch.timesteps, &batch.condition, &batch.classes}) {
    specs.emplace_back(tensor->defined() ? tensor->shape() : Shape{0}, tensor->dtype());
  }
  return specs;
}

const SampleSpec kSpecs[] = {
    {.input = {16}, .target = {16}},
    {.input = {16}, .target = {16}, .documents = true},
    {.input = {16}, .target = {16}, .target_positions = 3, .documents = true},
    {.input = {8, 8, 3}, .input_dtype = DType::kFloat32, .target = {4}, .target_weights = true},
    {.input = {5}, .input_dtype = DType::kFloat32, .target = {2, 3}, .target_dtype = DType::kFloat32},
    {.input = {8, 8, 4},
     .input_dtype = DType::kFloat32,
     .target = {8, 8, 4},
     .target_dtype = DType::kFloat32,
     .target_weights = true,
     .timesteps = true,
     .condition = {7, 6},
     .classes = true}};

// A prediction runs on batches without data, a job on batches from host memory: both have the same tensors.
TEST(SampleBatch, HasTheTensorsOfAHostBatch) {
  const Context ctx = Context::create({DeviceType::kMeta}, 1);
  for (const SampleSpec& spec : kSpecs) {
    const Batch made =
        make_batch(spec, 3, [&](const Shape& shape, DType dtype) { return ctx.empty(shape, dtype); });
    const HostBatch host = batches_without_data(spec)(0, 3);
    Batch put;
    const auto upload = [&](Tensor& tensor, const void*, const Shape& shape, DType dtype) {
      tensor = ctx.empty(shape, dtype);
    };
    put_inputs(host, put, upload);
    EXPECT_FALSE(put.targets.defined());
    put_targets(host, put, upload);
    EXPECT_EQ(specs_of(put), specs_of(made));
  }
}

}  // namespace
}  // namespace trireme
