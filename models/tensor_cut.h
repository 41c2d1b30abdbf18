// The split of a model's layers and vocabulary into tensor chunks: see [Note: tensor chunks] in
// runtime/parameter_slice.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include "runtime/ops/chunks.h"

namespace trireme {

/// A dim of a model that the groups of a sum split.
struct CutExtent {
  std::string_view name;
  std::int64_t size;
};

/// Throws Error(kInvalidInput) naming `model` if `tensor_chunks` is not a power of two, or does not divide
/// one of `extents`. Also throws if it is more than 1 and `heads` is odd, because no two ranks could share
/// the heads.
void check_tensor_cut(std::string_view model, int tensor_chunks, const CutExtent& heads,
                      std::initializer_list<CutExtent> extents);

/// The split of layers with `heads` heads, where each head belongs to one chunk. There are as many chunks as
/// divide the heads. The rest of `tensor_chunks`, a power of two, becomes groups within each chunk.
inline ops::ChunkCut layer_cut(int tensor_chunks, std::int64_t heads) {
  const auto chunks = static_cast<int>(std::gcd(std::int64_t{tensor_chunks}, heads));
  return {.chunks = chunks, .groups = tensor_chunks / chunks};
}

/// `chunks` if it divides the vocabulary, else 1: every tensor rank then holds the whole table.
inline int vocab_chunks(std::int64_t vocab, int chunks) {
  return vocab % chunks == 0 ? chunks : 1;
}

}  // namespace trireme
