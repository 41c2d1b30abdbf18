// A product in cuBLASLt's terms: its description, the layouts of its operands, and the algorithms that may
// run it.
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

// NVIDIA recommends this for Hopper, and 4 MiB for older cards.
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
/// True for statuses after which another algorithm may still work.
bool is_refusal(cublasStatus_t status);
/// True if the product has an epilogue.
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

  /// Must be called before the library is queried, because the supported epilogues may depend on the
  /// pointers.
  void set_pointers(const ProductPointers& pointers);

  /// Selects the heuristics' proposals that satisfy [Note: deterministic products], best first.
  void choose();
  /// Returns many proposals, good or bad, to be measured. See [Note: measured algorithms].
  std::vector<Candidate> choose_many() const;
  /// Puts an algorithm first. Returns an empty text, or the reason why the library or [Note: deterministic
  /// products] forbids it.
  std::string prefer(const ProductAlgorithm& algorithm);

  /// The algorithms to run, best first, without those that were refused.
  std::deque<Candidate>& candidates() { return candidates_; }

  /// Returns the library's status. A refusal enqueues nothing.
  cublasStatus_t enqueue(cudaStream_t stream, const Candidate& candidate, const ProductPointers& pointers,
                         void* workspace) const;

 private:
  std::vector<Candidate> proposals(int most, std::uint32_t reduction_schemes) const;

  const cublasLtHandle_t handle_;
  const Product product_;
  const LtOwner<cublasLtMatmulDesc_t> description_;
  const LtOwner<cublasLtMatrixLayout_t> a_, b_, c_, d_;  // in the library's order: a_ is our b
  std::deque<Candidate> candidates_;
};

ProductAlgorithm words_of(const cublasLtMatmulAlgo_t& algorithm);
/// "id 66, tile 20, stages 36, splits 4 in place".
std::string describe(const cublasLtMatmulAlgo_t& algorithm);
/// True if the parts of a sum are added in the result itself, one after the other.
bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace trireme::cuda
