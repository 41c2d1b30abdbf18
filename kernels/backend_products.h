// Measured choices among the matrix product algorithms of a library.
//
// [Note: measured products] For each product a library proposes several algorithms, ordered by its
// heuristics. A measurement replaces the first proposal by another one that is faster by kProductMargin.
// Algorithms sum in different orders, so last bits differ, and a second measurement may decide differently.
// Therefore one rank measures once, before the job's first step. Its table of choices goes to all ranks, into
// checkpoints and to the output folder, and a resumed job reads it. The table holds every measured product,
// including those that keep the first proposal. Products outside the table follow the heuristics.
//
// An algorithm is identified by the 64 bytes in which the library describes it. These bytes are valid only
// for the same library version on the same kind of card. The owner of the table compares both.
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

/// Work that the library does after the product.
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
  DType in = DType::kFloat32, out = DType::kFloat32;  // fp8: `in` is the dtype of a; b is e4m3
  MathMode math = MathMode::kFp32;
  Epilogue epilogue = Epilogue::kNone;
  bool add_c = false;                                  // beta = 1; only without activation
  std::int64_t a_pitch = 0, b_pitch = 0, d_pitch = 0;  // elements between rows in memory; 0: the row's length
  int alignment = 256;                                 // of all pointers, in bytes; a power of 2 up to 256
  auto operator<=>(const Product&) const = default;
};

/// "bf16 NT [8192 x 768 x 3072] to fp32, bias, added": m, n, k.
std::string to_string(const Product& product);

using ProductAlgorithm = std::array<std::uint64_t, 8>;

struct ProductChoice {
  ProductAlgorithm algorithm{};
  std::string description;  // "id 66, tile 20, stages 36, splits 4 in place"
  int candidate = 0;        // index among the algorithms that ran; 0 is the heuristics' first
  int num_candidates = 1;
  double us = 0, first_us = 0;  // one call; one call of the heuristics' first
  bool operator==(const ProductChoice&) const = default;
};

/// Keyed by product, with an alignment of at most kMeasuredAlignment.
using ProductTable = std::map<Product, ProductChoice>;

/// Alignment is capped at the alignment of every allocation. Beyond that, addresses differ between runs.
inline constexpr int kMeasuredAlignment = static_cast<int>(Allocator::kAlignment);
/// Fraction of time by which another algorithm must beat the heuristics' first.
inline constexpr double kProductMargin = 0.03;

/// The choices of one stream's library. See [Note: measured products].
class ProductChoices {
 public:
  /// Uses `table` for products that have not yet run on the stream.
  void use(ProductTable table);
  /// Measures each product outside the table at its first run, on its own operands. A result that the product
  /// should have added to is lost. Waits for the stream.
  void measure() { measures_ = true; }

  bool measures() const { return measures_; }
  bool is_active() const { return measures_ || uses_; }
  /// Null if the table lacks the product. The first miss is logged.
  const ProductChoice* find(const Product& product);
  void add(const Product& product, ProductChoice choice);
  /// The given choices and those measured since.
  const ProductTable& table() const { return table_; }

 private:
  ProductTable table_;
  bool uses_ = false, measures_ = false, told_ = false;
};

}  // namespace trireme
