#include "launcher/families/tensor_chunks.h"

#include <fmt/format.h>

#include <bit>

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

std::string layer_chunks_text(const ModelSection& model) {
  return model.tensor_chunks > 1 ? fmt::format(", {} tensor chunks of the layers", model.tensor_chunks) : "";
}

}  // namespace trireme
