#include "runtime/local_parameters.h"

#include "runtime/base/error.h"

namespace trireme {

LocalParameters::LocalParameters(const Context& ctx, const std::vector<ParameterSpec>& specs,
                                 const std::string& prefix, std::uint64_t seed) {
  for (const ParameterSpec& spec : specs) {
    const std::string full_name = prefix + "." + spec.name;
    std::vector<float> values(static_cast<std::size_t>(spec.shape.num_elems()));
    initialize_parameter(spec, full_name, seed, 0, values);
    entries_.push_back(
        {.name = full_name,
         .value = ctx.from_host(values.data(), spec.shape, DType::kFloat32, MemoryCategory::kParameters),
         .gradient = ctx.empty(spec.shape, DType::kFloat32, MemoryCategory::kGradients)});
  }
}

GradientTarget LocalParameters::gradient(ParamRef ref) {
  Entry& e = entry(ref);
  const GradientMode mode = e.written ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  e.written = true;
  return {e.gradient, mode};
}

const Tensor& LocalParameters::gradient_of(ParamRef ref) const {
  const Entry& e = entries_.at(static_cast<std::size_t>(ref.index));
  TRIREME_CHECK(e.written, "no gradient has reached parameter {}", e.name);
  return e.gradient;
}

void LocalParameters::clear_gradients() {
  for (Entry& e : entries_) e.written = false;
}

}  // namespace trireme
