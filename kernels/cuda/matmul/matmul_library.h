// cuBLASLt for one stream: its handle, its workspace, and a plan (matmul_plan.h) per shape, looked up once.
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
// [Note: measured algorithms] A measurement ([Note: measured products] in kernels/backend_products.h) asks
// for more proposals than a run does, in the same workspace. Of fp32 results it takes two more schemes of
// split K: parts that are stored as the result is, and parts that are added in the result, where counters
// "guarantee the sequentiality" (cublasLt.h). The header does not say which part comes first, so these must
// repeat their bits in five calls as well. Of 16-bit results both would round more than once. An algorithm
// out of a table is checked by the library (cublasLtMatmulAlgoCheck) and by the rules above before it runs.
//
// [Note: fp8 products] The library multiplies fp8 codes on cards from sm_89 on, and only where both operands
// lie along k: a [M, K], b [N, K]. What lies otherwise is transposed first, a byte an element, in workspace:
// both operands of a weight's gradient, and the weight in that of an input. Extents are multiples of 16.
// Other extents, and what the library refuses, are decoded to bf16, which holds the same numbers, and
// multiplied there. Sums are fp32 throughout: CUBLASLT_MATMUL_DESC_FAST_ACCUM stays off.
#pragma once

#include <map>
#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/device/slow_paths.h"
#include "kernels/cuda/matmul/matmul_plan.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {

class MatmulLibrary {
 public:
  /// `choices` outlives it.
  MatmulLibrary(const std::shared_ptr<Allocator>& allocator, ProductChoices& choices);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// False when the library has no algorithm for it, or none that runs; nothing is enqueued then. The
  /// alignment of `product` is filled in here. fp8: see [Note: fp8 products]. See [Note: refused products].
  bool run(cudaStream_t stream, Product product, const ProductPointers& pointers);

 private:
  MatmulPlan& plan_for(cudaStream_t stream, const Product& product, const ProductPointers& pointers);
  void follow_choice(cudaStream_t stream, MatmulPlan& plan, const Product& product,
                     const ProductPointers& pointers);
  void measure(cudaStream_t stream, MatmulPlan& plan, const Product& product,
               const ProductPointers& pointers);

  ProductChoices& choices_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<Product, std::unique_ptr<MatmulPlan>> plans_;
  SlowPaths slow_paths_;
};

}  // namespace trireme::cuda
