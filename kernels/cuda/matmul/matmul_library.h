// cuBLASLt for one stream: its handle, its workspace, and a cached plan (matmul_plan.h) per shape.
//
// [Note: row-major products] The library is column-major: to it, a row-major [M, N] is an N x M matrix. So D
// = A B is computed as D^T = B^T A^T, with the operands and M and N exchanged. Nothing is copied or
// transposed. A bias [N] is then one value per row of D^T, which is the library's own convention.
//
// [Note: deterministic products] The same plan gives the same bits. Algorithms that split K are used only if
// a second pass adds the parts in a fixed order. Plans depend on shapes, dtypes, epilogue, alignment and the
// card, and on nothing that differs between layouts of a job.
//
// [Note: refused products] The heuristics may propose an algorithm that the library then refuses to run. It
// refuses before it enqueues anything, so the next proposal replaces it for the rest of the run, with a
// warning. When no proposal is left, a product with an epilogue is split into the product and the rest, and a
// plain product runs on the native kernel. The heuristics are given the layout of the addend, but have no
// field for its factor. So a product with an addend is a separate problem here.
//
// [Note: measured algorithms] A measurement ([Note: measured products] in kernels/backend_products.h)
// requests more proposals than a run does, with the same workspace. For fp32 results it accepts two more
// schemes of split K: parts stored in the result's dtype, and parts added in the result, where counters
// "guarantee the sequentiality" (cublasLt.h). The header does not state which part comes first, so these
// algorithms must also repeat their bits in five calls. For 16-bit results both schemes would round more than
// once. An algorithm from a table is checked by the library (cublasLtMatmulAlgoCheck) and by the rules above
// before it runs.
//
// [Note: fp8 products] The library multiplies fp8 codes on cards from sm_89 on, and only if both operands run
// along k: a [M, K], b [N, K]. So the kernels that make codes write them in both orders. Extents must be
// multiples of 16. For other extents, and for products that the library refuses, the codes are decoded to
// bf16, which represents the same numbers, and multiplied in bf16. Sums are fp32 throughout:
// CUBLASLT_MATMUL_DESC_FAST_ACCUM stays off.
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
  /// `choices` must outlive this object.
  MatmulLibrary(const std::shared_ptr<Allocator>& allocator, ProductChoices& choices);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// False if the library has no algorithm, or none that runs; nothing is then enqueued. Fills in the
  /// alignment of `product`. See [Note: refused products], and for fp8 [Note: fp8 products].
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
