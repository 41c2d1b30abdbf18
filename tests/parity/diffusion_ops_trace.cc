// Runs the ops of diffusion networks on random numbers and writes inputs, results and gradients as JSON, for
// diffusion_ops_parity.py.
//
//   diffusion_ops_trace FILE.json
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/local_parameters.h"
#include "runtime/ops/concat.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/cross_attention.h"
#include "runtime/ops/group_norm.h"
#include "runtime/ops/squared_error.h"
#include "runtime/ops/time_embedding.h"
#include "runtime/ops/upsample.h"
#include "runtime/tape.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

struct OpCase {
  std::string name;
  std::vector<ParameterSpec> parameters;
  std::vector<Shape> inputs;
  std::function<Tensor(Context&, const std::vector<Tensor>&)> op;
};

class TraceWriter {
 public:
  Json run(const OpCase& c) {
    Context ctx = Context::create({DeviceType::kCpu}, 2);
    ctx.training = true;
    LocalParameters parameters(ctx, c.parameters, "op", 3);
    ctx.parameters = &parameters;
    Json traced{{"name", c.name}};
    for (std::size_t i = 0; i < c.parameters.size(); ++i) {
      const Tensor value = parameters.value({static_cast<int>(i)});
      const std::vector<float> values = random(value.num_elems());
      ctx.backend->copy_from_host(ctx.exec, value, values.data());
      traced["parameters"].push_back(described(ctx, value));
    }
    Tape tape;
    std::vector<Tensor> inputs;
    std::vector<ValueId> ids;
    for (const Shape& shape : c.inputs) {
      const std::vector<float> values = random(shape.num_elems());
      inputs.push_back(tape.watch(ctx.from_host(values.data(), shape, DType::kFloat32)));
      ids.push_back(inputs.back().id());
      traced["inputs"].push_back(described(ctx, inputs.back()));
    }
    ctx.tape = &tape;
    const Tensor y = c.op(ctx, inputs);
    traced["result"] = described(ctx, y);
    const std::vector<float> values = random(y.num_elems());
    const Tensor seed = ctx.from_host(values.data(), y.shape(), DType::kFloat32);
    traced["seed"] = described(ctx, seed);
    inputs.clear();
    for (const Tensor& dx : tape.backward(ctx, {{y.id(), seed}}, ids)) {
      if (dx.defined()) traced["input_gradients"].push_back(described(ctx, dx));
    }
    for (std::size_t i = 0; i < c.parameters.size(); ++i) {
      traced["parameter_gradients"].push_back(described(ctx, parameters.gradient_of({static_cast<int>(i)})));
    }
    return traced;
  }

 private:
  static Json described(const Context& ctx, const Tensor& tensor) {
    Json shape = Json::array();
    for (int d = 0; d < tensor.shape().rank(); ++d) shape.push_back(tensor.shape()[d]);
    return {{"shape", shape}, {"values", ctx.to_host(tensor)}};
  }
  std::vector<float> random(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal_(engine_);
    return values;
  }

  std::mt19937_64 engine_{7};
  std::normal_distribution<float> normal_;
};

std::vector<OpCase> op_cases() {
  const std::vector<ParameterSpec> norm{{.name = "weight", .shape = {24}}, {.name = "bias", .shape = {24}}};
  const std::vector<ParameterSpec> conv{{.name = "weight", .shape = {6, 5, 3, 3}},
                                        {.name = "bias", .shape = {6}}};
  const auto group_norm = [](Activation activation) {
    return [=](Context& ctx, const std::vector<Tensor>& in) {
      return ops::group_norm(ctx, in[0], {0}, {1}, 8, 1e-5f, activation);
    };
  };
  return {
      {"group_norm", norm, {{3, 7, 5, 24}}, group_norm(Activation::kNone)},
      {"group_norm_silu", norm, {{3, 7, 5, 24}}, group_norm(Activation::kSilu)},
      {"downsample",
       conv,
       {{2, 8, 6, 5}},
       [](Context& ctx, const std::vector<Tensor>& in) {
         return ops::conv2d(ctx, in[0], {0}, {.bias = {1}, .geometry = {.stride = 2, .padding_after = 1}});
       }},
      {"upsample",
       {},
       {{2, 3, 4, 5}},
       [](Context& ctx, const std::vector<Tensor>& in) { return ops::upsample_nearest(ctx, in[0]); }},
      {"concat",
       {},
       {{2, 3, 4, 5}, {2, 3, 4, 7}},
       [](Context& ctx, const std::vector<Tensor>& in) { return ops::concat_channels(ctx, in[0], in[1]); }},
      {"cross_attention",
       {},
       {{2, 30, 24}, {2, 77, 24}, {2, 77, 24}},
       [](Context& ctx, const std::vector<Tensor>& in) {
         return ops::cross_attention(ctx, in[0], in[1], in[2], 3);
       }},
      {"squared_error", {}, {{4, 3, 5, 2}, {4, 3, 5, 2}}, [](Context& ctx, const std::vector<Tensor>& in) {
         const std::vector<float> weights = {0.5f, 1.0f, 2.0f, 0.25f};
         return ops::squared_error(ctx, in[0], in[1].detach(),
                                   ctx.from_host(weights.data(), {4}, DType::kFloat32), 0.25f);
       }}};
}

// The embeddings of diffusers' DDPM and Stable Diffusion networks.
Json time_embeddings() {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  const std::vector<float> timesteps = {0, 1, 17, 500, 999};
  const Tensor t = ctx.from_host(timesteps.data(), {5}, DType::kFloat32);
  return {{"timesteps", timesteps},
          {"ddpm", ctx.to_host(ops::time_embedding(ctx, t, 128))},
          {"sd", ctx.to_host(ops::time_embedding(
                     ctx, t, 320, {.halves = TimeHalves::kCosineFirst, .downscale_freq_shift = 0.0f}))}};
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: diffusion_ops_trace FILE.json\n";
    return 2;
  }
  trireme::Json all{{"time", trireme::time_embeddings()}};
  trireme::TraceWriter writer;
  for (const trireme::OpCase& c : trireme::op_cases()) all["cases"].push_back(writer.run(c));
  std::ofstream(argv[1]) << all;
  return 0;
}
