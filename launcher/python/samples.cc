#include "launcher/python/samples.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "launcher/families/model_family.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Classes that a target may name.
std::int64_t num_classes(const ModelSection& model) {
  return counts_classes(model) ? model.classes : model.vocab;
}

void check_range(std::span<const std::int32_t> values, std::int32_t least, std::int64_t end, const char* what,
                 const char* key) {
  const auto bad = std::ranges::find_if(values, [&](std::int32_t v) { return v < least || v >= end; });
  TRIREME_CHECK(bad == values.end(), "{}[{}] (flat) is {}, and must be from {} to {} ({} = {})", what,
                bad - values.begin(), *bad, least, end - 1, key, end);
}

}  // namespace

void check_plain(const SampleSpec& spec) {
  const bool is_plain = !spec.target_weights && !spec.documents && !spec.timesteps && !spec.classes &&
                        spec.condition.rank() == 0;
  if (is_plain) return;
  throw Error(ErrorCode::kUnsupported,
              "the job's samples have more than inputs and targets (mixed labels, documents, or the "
              "conditions of a diffusion model): train it from its files, with train()");
}

SampleSpec given_samples(SampleSpec spec) {
  spec.target_positions = 0;
  return spec;
}

void check_samples(const SampleSpec& spec, const ModelSection& model, const Samples& samples) {
  TRIREME_CHECK(samples.count > 0, "inputs have 0 samples");
  const auto count = static_cast<std::size_t>(samples.count);
  if (spec.input_dtype == DType::kInt32) {
    const std::size_t elems = count * static_cast<std::size_t>(spec.input.num_elems());
    check_range({static_cast<const std::int32_t*>(samples.inputs), elems}, 0, model.vocab, "inputs",
                "model.vocab");
  }
  if (samples.targets == nullptr || spec.target_dtype != DType::kInt32) return;
  const std::size_t elems = count * static_cast<std::size_t>(spec.target.num_elems());
  check_range({static_cast<const std::int32_t*>(samples.targets), elems}, -1, num_classes(model), "targets",
              counts_classes(model) ? "model.classes" : "model.vocab");
}

std::int64_t targets_per_sample(const SampleSpec& spec) {
  return spec.target_dtype == DType::kInt32 ? spec.target.num_elems() : 1;
}

std::int64_t num_targets(const SampleSpec& spec, const Samples& samples) {
  if (samples.targets == nullptr || spec.target_dtype != DType::kInt32) return samples.count;
  const std::span targets(static_cast<const std::int32_t*>(samples.targets),
                          static_cast<std::size_t>(samples.count * spec.target.num_elems()));
  return std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; });
}

BatchSource source_of(const SampleSpec& spec, const Samples& samples) {
  return [spec, samples](std::int64_t first, std::int64_t count) {
    HostBatch batch{.input_shape = spec.input.batched(count),
                    .target_shape = spec.target.batched(count),
                    .input_dtype = spec.input_dtype,
                    .target_dtype = spec.target_dtype};
    const std::size_t bytes = static_cast<std::size_t>(spec.input.num_elems() * size_bytes(spec.input_dtype));
    const auto* inputs =
        static_cast<const std::byte*>(samples.inputs) + static_cast<std::size_t>(first) * bytes;
    batch.inputs.assign(inputs, inputs + static_cast<std::size_t>(count) * bytes);
    const std::int64_t per_sample = spec.target.num_elems();
    const auto fill = [&]<class T>(std::vector<T>& targets) {
      targets.resize(static_cast<std::size_t>(count * per_sample));
      if (samples.targets == nullptr) return;
      std::memcpy(targets.data(), static_cast<const T*>(samples.targets) + first * per_sample,
                  targets.size() * sizeof(T));
    };
    if (spec.target_dtype == DType::kInt32) fill(batch.targets);
    if (spec.target_dtype == DType::kFloat32) fill(batch.number_targets);
    return batch;
  };
}

}  // namespace trireme
