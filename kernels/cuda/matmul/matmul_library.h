// cuBLASLt for one stream: its handle, its workspace, and a plan per shape, looked up once.
//
// [Note: row-major products] The library counts by columns: a row-major [M, N] is its N x M. So D = A B is
// computed as D^T = B^T A^T, with the operands exchanged and M and N too; nothing is copied or transposed. A
// bias [N] is then one value per row of D^T, which is the library's own convention.
//
// [Note: deterministic products] The same plan gives the same bits: algorithms that split K are taken only
// where the parts are added in a fixed order by a second pass. Plans depend on shapes, dtypes, epilogue,
// alignment and the card, and on nothing that differs between layouts of a job.
//
// [Note: refused products] The heuristics may propose what the library then refuses to run. It says so before
// it enqueues anything, so the next proposal runs in its place, from then on and with a warning; the last
// refusal of a product with an epilogue leaves the product and the rest one after the other, that of a plain
// one the native kernel. The question to the heuristics has the layout of what is added; there is no field
// for its factor, so a product with an addend is a problem of its own here.
//
// [Note: fp8 products] The library multiplies fp8 codes on cards from sm_89 on, and only where both operands
// lie along k: a [M, K], b [N, K]. What lies otherwise is transposed first, a byte an element, in workspace:
// both operands of a weight's gradient, and the weight in that of an input. Extents are multiples of 16.
// Other extents, and what the library refuses, are decoded to bf16, which holds the same numbers, and
// multiplied there. Sums are fp32 throughout: CUBLASLT_MATMUL_DESC_FAST_ACCUM stays off.
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/device/slow_paths.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {

/// The library's work after the product.
enum class Epilogue : std::uint8_t {
  kNone,
  kBias,
  kGelu,         // d = gelu(ab)
  kGeluBias,     // d = gelu(ab + bias)
  kGeluAux,      // aux = ab, d = gelu(aux)
  kGeluAuxBias,  // aux = ab + bias, d = gelu(aux)
};

/// d = epilogue(op(a) op(b) + beta c), row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::kNo, transpose_b = Transpose::kNo;
  DType in = DType::kFloat32, out = DType::kFloat32;  // fp8: `in` is a's, b is e4m3
  MathMode math = MathMode::kFp32;
  Epilogue epilogue = Epilogue::kNone;
  bool add_c = false;  // beta = 1; only without activation
  std::int64_t a_pitch = 0,
               b_pitch = 0;  // elements from one row in memory to the next; 0: as long as rows are
  int alignment = 256;       // that all pointers have, in bytes; a power of 2 of at most 256
  auto operator<=>(const Product&) const = default;
};

struct ProductPointers {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  // may be d
  void* d = nullptr;
  const void* bias = nullptr;
  void* aux = nullptr;
  const void *a_inverse_scale = nullptr, *b_inverse_scale = nullptr;  // of fp8 codes
};

class MatmulLibrary {
 public:
  explicit MatmulLibrary(const std::shared_ptr<Allocator>& allocator);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// False when the library has no algorithm for it, or none that runs; nothing is enqueued then. The
  /// alignment of `product` is filled in here. fp8: see [Note: fp8 products]. See [Note: refused products].
  bool run(cudaStream_t stream, Product product, const ProductPointers& pointers);

 private:
  struct Plan;

  Plan& plan_for(cudaStream_t stream, const Product& product, const ProductPointers& pointers);

  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<Product, std::unique_ptr<Plan>> plans_;
  SlowPaths slow_paths_;
};

}  // namespace trireme::cuda
