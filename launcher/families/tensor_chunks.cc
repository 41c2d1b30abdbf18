#include "launcher/families/tensor_chunks.h"

#include <fmt/format.h>

#include <bit>

#include "runtime/base/error.h"

namespace trireme {

void check_tensor_chunks(const ModelSection& model, const char* key, std::int64_t number) {
  TRIREME_CHECK(std::has_single_bit(static_cast<std::uint64_t>(model.tensor_chunks)),
                "model.tensor_chunks = {} is not a power of two", model.tensor_chunks);
  TRIREME_CHECK(number % model.tensor_chunks == 0, "model.tensor_chunks = {} does not divide model.{} = {}",
                model.tensor_chunks, key, number);
}

std::string layer_chunks_text(const ModelSection& model) {
  return model.tensor_chunks > 1 ? fmt::format(", {} tensor chunks of the layers", model.tensor_chunks) : "";
}

}  // namespace trireme
