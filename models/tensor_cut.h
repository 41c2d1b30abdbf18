// What tensor chunks a model's layers and vocabulary are cut into: see [Note: tensor chunks] in
// runtime/parameter_slice.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include "runtime/ops/chunks.h"

namespace trireme {

/// A dim of a model that groups of a sum cut.
struct CutExtent {
  std::string_view name;
  std::int64_t size;
};

/// Throws Error(kInvalidInput), naming `model`, where `tensor_chunks` is no power of two, does not divide one
/// of `extents`, or is more than 1 where `heads` is odd, so that no two ranks could share them.
void check_tensor_cut(std::string_view model, int tensor_chunks, const CutExtent& heads,
                      std::initializer_list<CutExtent> extents);

/// Of layers of `heads` heads, which one chunk has whole: as many chunks as divide the heads, and in each the
/// groups that are left of `tensor_chunks`, a power of two.
inline ops::ChunkCut layer_cut(int tensor_chunks, std::int64_t heads) {
  const auto chunks = static_cast<int>(std::gcd(std::int64_t{tensor_chunks}, heads));
  return {.chunks = chunks, .groups = tensor_chunks / chunks};
}

/// `chunks` where they divide the vocabulary, else 1: all tensor ranks have the whole table then.
inline int vocab_chunks(std::int64_t vocab, int chunks) {
  return vocab % chunks == 0 ? chunks : 1;
}

}  // namespace trireme
