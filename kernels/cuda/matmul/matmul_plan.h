// A product as cuBLASLt knows it: its description, its operands' layouts, and the algorithms that may run it.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/backend_products.h"

namespace trireme::cuda {

// The vendor's advice for Hopper; older cards want 4 MiB.
inline constexpr std::size_t kMatmulWorkspaceBytes = std::size_t{32} << 20;

struct ProductPointers {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  // may be d
  void* d = nullptr;
  const void* bias = nullptr;
  void* aux = nullptr;
  const void *a_inverse_scale = nullptr, *b_inverse_scale = nullptr;  // of fp8 codes
};

void check_lt(cublasStatus_t status, const char* call);
/// What other algorithms may yet take.
bool is_refusal(cublasStatus_t status);
/// More is done to it than to multiply.
bool is_fused(const Product& product);
/// For messages.
std::string text_of(const Product& product);

struct DestroyLt {
  void operator()(cublasLtMatmulDesc_t description) const noexcept;
  void operator()(cublasLtMatrixLayout_t layout) const noexcept;
};
template <class Handle>
using LtOwner = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyLt>;

class MatmulPlan {
 public:
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
  };

  MatmulPlan(cublasLtHandle_t handle, const Product& product);

  /// What the epilogue can do may depend on them: they are set before the library is asked anything.
  void set_pointers(const ProductPointers& pointers);

  /// The heuristics' proposals that keep [Note: deterministic products], the best first.
  void choose();
  /// More of them, of any quality: to be measured. See [Note: measured algorithms].
  std::vector<Candidate> choose_many() const;
  /// Puts an algorithm first. Empty; else why the library or the contract does not allow it.
  std::string prefer(const ProductAlgorithm& algorithm);

  /// Those to run, the best first; what has refused to run is none.
  std::deque<Candidate>& candidates() { return candidates_; }

  /// As the library answers: a refusal enqueues nothing.
  cublasStatus_t enqueue(cudaStream_t stream, const Candidate& candidate, const ProductPointers& pointers,
                         void* workspace) const;

 private:
  std::vector<Candidate> proposals(int most, std::uint32_t reduction_schemes) const;

  const cublasLtHandle_t handle_;
  const Product product_;
  const LtOwner<cublasLtMatmulDesc_t> description_;
  const LtOwner<cublasLtMatrixLayout_t> a_, b_, c_, d_;  // the library's: a is our b
  std::deque<Candidate> candidates_;
};

ProductAlgorithm words_of(const cublasLtMatmulAlgo_t& algorithm);
/// "id 66, tile 20, stages 36, splits 4 in place".
std::string describe(const cublasLtMatmulAlgo_t& algorithm);
/// Whether parts of a sum are added in the result itself, one after the other.
bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace trireme::cuda
