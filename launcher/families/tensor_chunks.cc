#include "launcher/families/tensor_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "launcher/families/model_family.h"
#include "runtime/base/error.h"

namespace trireme {

void check_divided(const ModelSection& model, const ModelExtent& extent) {
  TRIREME_CHECK(extent.size % model.tensor_chunks == 0,
                "model.tensor_chunks = {} does not divide model.{} = {}", model.tensor_chunks, extent.key,
                extent.size);
}

void check_tensor_chunks(const ModelSection& model, const ModelExtent& heads, const ModelExtent& width) {
  TRIREME_CHECK(std::has_single_bit(static_cast<std::uint64_t>(model.tensor_chunks)),
                "model.tensor_chunks = {} is not a power of two", model.tensor_chunks);
  check_divided(model, width);
  TRIREME_CHECK(
      model.tensor_chunks == 1 || heads.size % 2 == 0,
      "model.{} = {} is odd, so that no two tensor ranks could share them: use model.tensor_chunks = 1, "
      "not {}",
      heads.key, heads.size, model.tensor_chunks);
}

void check_tensor_ranks(const JobConfig& config) {
  const ModelSection& model = config.model;
  const std::int64_t ranks = config.parallel.layout.tensor;
  if (ranks == 1) return;
  const ModelFamily& family = family_of(model);
  TRIREME_CHECK(
      std::ranges::count(family.keys, "tensor_chunks") > 0,
      "parallel.tensor = {}: a {} cannot be cut into tensor chunks{}{}; take data ranks, ZeRO or stages",
      ranks, model.name, family.tensor_obstacle.empty() ? "" : ": ", family.tensor_obstacle);
  TRIREME_CHECK(
      model.tensor_chunks > 1,
      "parallel.tensor = {}: the model has one tensor chunk, and nothing that ranks could share; set "
      "model.tensor_chunks to a power of two of {} or more (it is part of the mathematics: choose it once)",
      ranks, ranks);
  TRIREME_CHECK(
      model.tensor_chunks % ranks == 0,
      "parallel.tensor = {} ranks cannot share model.tensor_chunks = {} equally: use a power of two up to it",
      ranks, model.tensor_chunks);
  const char* key = model.kv_heads > 0 ? "kv_heads" : "heads";
  const std::int64_t heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  TRIREME_CHECK(heads % ranks == 0,
                "parallel.tensor = {} ranks cannot share model.{} = {} equally: use a power of two up to {}",
                ranks, key, heads, heads & -heads);
}

std::string layer_chunks_text(const ModelSection& model) {
  return model.tensor_chunks > 1 ? fmt::format(", {} tensor chunks of the layers", model.tensor_chunks) : "";
}

}  // namespace trireme
