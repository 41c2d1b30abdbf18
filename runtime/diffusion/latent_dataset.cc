#include "runtime/diffusion/latent_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/permutation.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The tensor, checked to be numbers of shape [N, tail...]; `lead` is 0 for a shape without N.
const SafetensorsTensor& checked(const SafetensorsReader& shard, const char* name, const Shape& tail,
                                 int lead) {
  TRIREME_CHECK(shard.has(name), "{}: there is no tensor `{}`, and the network needs one of {} for a sample",
                shard.path().string(), name, tail.to_string());
  const SafetensorsTensor& tensor = shard.tensor(name);
  TRIREME_CHECK(is_float_data(tensor), "{}: `{}` is {}; it must be F32, F16 or BF16", shard.path().string(),
                name, tensor.dtype);
  bool fits = static_cast<int>(tensor.shape.size()) == tail.rank() + lead;
  for (int i = 0; fits && i < tail.rank(); ++i) {
    fits = tensor.shape[static_cast<std::size_t>(i + lead)] == tail[i];
  }
  TRIREME_CHECK(fits,
                "{}: `{}` has the shape [{}], and the network needs {} for a sample: change the model "
                "or write other shards",
                shard.path().string(), name, fmt::join(tensor.shape, ", "), tail.to_string());
  return tensor;
}

}  // namespace

std::vector<fs::path> latent_shards(const fs::path& path) {
  TRIREME_CHECK(fs::exists(path),
                "{}: there is no such folder or file: write shards with examples/latents.py", path.string());
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  TRIREME_CHECK(!files.empty(), "{}: the folder has no *.safetensors: write some with examples/latents.py",
                path.string());
  return files;
}

std::int64_t condition_vectors(const fs::path& path) {
  const SafetensorsReader shard(latent_shards(path).front());
  if (!shard.has("condition")) return 0;
  const std::vector<std::int64_t>& shape = shard.tensor("condition").shape;
  return shape.size() == 3 ? shape[1] : 0;
}

LatentDataset::LatentDataset(const fs::path& path, const Shapes& shapes, std::uint64_t seed)
    : shapes_(shapes), seed_(seed) {
  TRIREME_CHECK(shapes.latent.rank() == 3, "latents are [h, w, c], not {}", shapes.latent.to_string());
  for (const fs::path& file : latent_shards(path)) add_shard(file);
  TRIREME_CHECK(num_samples() > 0, "{}: there are no latents", path.string());
  if (shapes.condition.rank() == 0 || !shards_[0].has("null_condition")) return;
  null_condition_.resize(static_cast<std::size_t>(shapes.condition.num_elems()));
  copy_as_floats(checked(shards_[0], "null_condition", shapes.condition, 0), 0, null_condition_);
}

void LatentDataset::add_shard(const fs::path& path) {
  const SafetensorsReader& shard = shards_.emplace_back(path);
  const std::int64_t count = checked(shard, "latents", shapes_.latent, 1).shape[0];
  if (shapes_.condition.rank() > 0) {
    const std::int64_t conditions = checked(shard, "condition", shapes_.condition, 1).shape[0];
    TRIREME_CHECK(conditions == count, "{}: there are {} latents and {} conditions", path.string(), count,
                  conditions);
  }
  if (shapes_.classes > 0) {
    TRIREME_CHECK(shard.has("classes"),
                  "{}: there is no tensor `classes`, and the network reads one of {} classes with a sample: "
                  "write them, "
                  "or take a network without classes",
                  path.string(), shapes_.classes);
    const SafetensorsTensor& classes = shard.tensor("classes");
    TRIREME_CHECK(classes.dtype == "I32" && classes.shape == std::vector<std::int64_t>{count},
                  "{}: `classes` is {} [{}]; it must be I32 [{}]", path.string(), classes.dtype,
                  fmt::join(classes.shape, ", "), count);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int32_t label;
      std::memcpy(&label, classes.data.data() + static_cast<std::size_t>(i) * sizeof label, sizeof label);
      TRIREME_CHECK(label >= 0 && label < shapes_.classes,
                    "{}: class {} of sample {} is not in [0, {}), the classes of the model", path.string(),
                    label, i, shapes_.classes);
    }
  }
  first_samples_.push_back(first_samples_.back() + count);
}

HostBatch LatentDataset::empty_batch(std::int64_t count) const {
  HostBatch batch;
  batch.input_shape = shapes_.latent.batched(count);
  batch.target_shape = {count};
  batch.input_dtype = DType::kFloat32;
  batch.inputs.reserve(static_cast<std::size_t>(batch.input_shape.num_elems()) * sizeof(float));
  if (shapes_.condition.rank() > 0) batch.condition_shape = shapes_.condition.batched(count);
  return batch;
}

void LatentDataset::append(std::int64_t sample, HostBatch& batch) const {
  const auto after = std::ranges::upper_bound(first_samples_, sample);
  const auto index = static_cast<std::size_t>(after - first_samples_.begin()) - 1;
  const SafetensorsReader& shard = shards_[index];
  const auto row = static_cast<std::uint64_t>(sample - first_samples_[index]);
  const auto latent_elems = static_cast<std::size_t>(shapes_.latent.num_elems());
  const std::size_t begin = batch.inputs.size();
  batch.inputs.resize(begin + latent_elems * sizeof(float));
  copy_as_floats(shard.tensor("latents"), row * latent_elems,
                 {reinterpret_cast<float*>(batch.inputs.data() + begin), latent_elems});
  if (shapes_.condition.rank() > 0) {
    const auto elems = static_cast<std::size_t>(shapes_.condition.num_elems());
    const std::size_t at = batch.condition.size();
    batch.condition.resize(at + elems);
    copy_as_floats(shard.tensor("condition"), row * elems, {batch.condition.data() + at, elems});
  }
  std::int32_t label = 0;
  if (shapes_.classes > 0) {
    std::memcpy(&label, shard.tensor("classes").data.data() + row * sizeof label, sizeof label);
  }
  batch.targets.push_back(label);
}

HostBatch LatentDataset::read_train(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  HostBatch batch = empty_batch(count);
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const auto epoch = static_cast<std::uint32_t>(sample / num_samples());
    append(Permutation(num_samples(), seed_, epoch)(sample % num_samples()), batch);
  }
  return batch;
}

HostBatch LatentDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0 && first + count <= num_samples(),
                "samples {} to {} were requested, but there are only {}", first, first + count - 1,
                num_samples());
  HostBatch batch = empty_batch(count);
  for (std::int64_t sample = first; sample < first + count; ++sample) append(sample, batch);
  return batch;
}

DataFingerprint LatentDataset::fingerprint() const {
  ByteHash hash;
  for (const SafetensorsReader& shard : shards_) {
    for (const char* name : {"latents", "condition", "classes"}) {
      if (shard.has(name)) hash.update(shard.tensor(name).data);
    }
  }
  return {.contents = fmt::format("{} latents", num_samples()), .hash = hash.value()};
}

}  // namespace trireme
