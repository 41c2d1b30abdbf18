// Choices among the algorithms that a library has for products of matrices, measured on a card.
//
// [Note: measured products] A library proposes several algorithms for a product, the best first by its
// heuristics. A measurement may find another one faster, and takes it where it is kProductMargin faster than
// the first. It sums in another order, so last bits differ; and another measurement may decide otherwise. So
// one rank measures, once, before the job's first step; the table of its choices goes to all ranks, into
// checkpoints and to the output folder, and is what a resumed job reads. It names all products that were
// measured, those whose first proposal stays, too. A product that it does not name goes by the heuristics.
//
// An algorithm is known by the 64 bytes that the library describes it with. They mean the same for the same
// version of the library on cards of the same kind only, which the table's owner has to compare.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kernels/backend_types.h"
#include "runtime/base/allocator.h"

namespace trireme {

/// The library's work after the product.
enum class Epilogue : std::uint8_t {
  kNone,
  kBias,
  kGelu,         // d = gelu(ab)
  kGeluBias,     // d = gelu(ab + bias)
  kGeluAux,      // aux = ab, d = gelu(aux)
  kGeluAuxBias,  // aux = ab + bias, d = gelu(aux)
};
inline constexpr std::string_view kEpilogueNames[] = {"none",      "bias",     "gelu",
                                                      "gelu_bias", "gelu_aux", "gelu_aux_bias"};

/// d = epilogue(op(a) op(b) + beta c), row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::kNo, transpose_b = Transpose::kNo;
  DType in = DType::kFloat32, out = DType::kFloat32;  // fp8: `in` is a's, b is e4m3
  MathMode math = MathMode::kFp32;
  Epilogue epilogue = Epilogue::kNone;
  bool add_c = false;                     // beta = 1; only without activation
  std::int64_t a_pitch = 0, b_pitch = 0;  // elements from a row in memory to the next; 0: as long as rows are
  int alignment = 256;                    // that all pointers have, in bytes; a power of 2 of at most 256
  auto operator<=>(const Product&) const = default;
};

/// "bf16 NT [8192 x 768 x 3072] to fp32, bias, added": m, n, k.
std::string to_string(const Product& product);

using ProductAlgorithm = std::array<std::uint64_t, 8>;

struct ProductChoice {
  ProductAlgorithm algorithm{};
  std::string description;  // "id 66, tile 20, stages 36, splits 4 in place"
  int candidate = 0;        // among those that ran: 0 is the heuristics' first
  int num_candidates = 1;
  double us = 0, first_us = 0;  // of one call; of the heuristics' first
  bool operator==(const ProductChoice&) const = default;
};

/// By product, with an alignment of at most kMeasuredAlignment.
using ProductTable = std::map<Product, ProductChoice>;

/// A product's alignment is asked for up to what every allocation has: beyond, addresses differ from run to
/// run.
inline constexpr int kMeasuredAlignment = static_cast<int>(Allocator::kAlignment);
/// By how much of its time another algorithm has to be faster than the heuristics' first.
inline constexpr double kProductMargin = 0.03;

/// The choices of one stream's library. See [Note: measured products].
class ProductChoices {
 public:
  /// Products that have not run on the stream yet go by `table` from now on.
  void use(ProductTable table);
  /// Products that have not run yet, and are not in the table, are measured when they first run, on their
  /// operands: results that are added to are lost. Waits for the stream.
  void measure() { measures_ = true; }

  bool measures() const { return measures_; }
  bool is_active() const { return measures_ || uses_; }
  /// Null where the table does not name it, which is said once, of the first.
  const ProductChoice* find(const Product& product);
  void add(const Product& product, ProductChoice choice);
  /// Those given, and those measured since.
  const ProductTable& table() const { return table_; }

 private:
  ProductTable table_;
  bool uses_ = false, measures_ = false, told_ = false;
};

}  // namespace trireme
