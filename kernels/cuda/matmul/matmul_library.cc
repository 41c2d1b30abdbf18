#include "kernels/cuda/matmul/matmul_library.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <string>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/quantize.h"
#include "kernels/product_workspace.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::cuda {
namespace {

// The vendor's advice for Hopper; older cards want 4 MiB.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

void check_lt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kRuntime,
              "cuda: {} failed: {}", call, cublasLtGetStatusString(status));
}

cudaDataType_t lt_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kE4m3:
      return CUDA_R_8F_E4M3;
    case DType::kE5m2:
      return CUDA_R_8F_E5M2;
    default:
      throw Error(ErrorCode::kUnsupported, "matmul on cuda does not take {}", name(dtype));
  }
}

DType b_type(const Product& product) {
  return is_fp8(product.in) ? DType::kE4m3 : product.in;
}

// See [Note: fp8 products].
bool takes_extents(const Product& p) {
  return !is_fp8(p.in) || takes_fp8_extents(p.m, p.n, p.k);
}

cublasLtEpilogue_t lt_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case Epilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::kGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// 16-bit inputs are exact and their products are summed in fp32, whatever the mode.
cublasComputeType_t lt_compute_type(const Product& product) {
  return product.in == DType::kFloat32 && product.math == MathMode::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                          : CUBLAS_COMPUTE_32F;
}

// What other algorithms may yet take.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kGeluBias || epilogue == Epilogue::kGeluAuxBias;
}

bool has_aux(Epilogue epilogue) {
  return epilogue == Epilogue::kGeluAux || epilogue == Epilogue::kGeluAuxBias;
}

bool is_fused(const Product& product) {
  return product.add_c || product.epilogue != Epilogue::kNone;
}

std::string text_of(const Product& p) {
  return fmt::format("matmul of [{} x {} x {}], {} to {}{}", p.m, p.n, p.k, name(p.in), name(p.out),
                     is_fused(p) ? ", with what is done to it" : "");
}

// What runs in place of a refused algorithm.
const char* successor(const Product& product, bool was_last) {
  if (!was_last) return "its next proposal runs";
  if (is_fused(product)) return "the product and the rest run one after the other";
  return is_fp8(product.in) ? "it runs in bf16" : "the slower native kernel runs";
}

int common_alignment(const ProductPointers& p) {
  std::uintptr_t bits = 256;
  for (const void* pointer :
       {p.a, p.b, p.c, static_cast<const void*>(p.d), p.bias, static_cast<const void*>(p.aux)}) {
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  return static_cast<int>(bits & -bits);
}

class Layout {
 public:
  Layout(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t pitch = 0) {
    check_lt(cublasLtMatrixLayoutCreate(&layout_, lt_type(dtype), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(cols), pitch == 0 ? rows : pitch),
             "cublasLtMatrixLayoutCreate");
  }
  ~Layout() { (void)cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  explicit Description(const Product& product) {
    check_lt(cublasLtMatmulDescCreate(&desc_, lt_compute_type(product), CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    // Operands change places: see [Note: row-major products].
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_b == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_a == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(product.epilogue));
    if (has_aux(product.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
  }
  ~Description() { (void)cublasLtMatmulDescDestroy(desc_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check_lt(cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }
  cublasLtMatmulDesc_t get() const { return desc_; }

 private:
  cublasLtMatmulDesc_t desc_ = nullptr;
};

class Preference {
 public:
  Preference() { check_lt(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate"); }
  ~Preference() { (void)cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// See [Note: deterministic products].
constexpr std::uint32_t kReductionSchemes =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

bool is_deterministic(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  check_lt(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                sizeof(scheme), &written),
           "cublasLtMatmulAlgoConfigGetAttribute");
  return (scheme & ~kReductionSchemes) == 0;
}

}  // namespace

struct MatmulLibrary::Plan {
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
  };

  Description description;
  Layout a, b, c, d;                 // the library's: `a` is our b
  std::deque<Candidate> candidates;  // the best first; what has refused to run is none

  explicit Plan(const Product& p)
      : description(p),
        a(b_type(p), p.transpose_b == Transpose::kYes ? p.k : p.n,
          p.transpose_b == Transpose::kYes ? p.n : p.k, p.b_pitch),
        b(p.in, p.transpose_a == Transpose::kYes ? p.m : p.k, p.transpose_a == Transpose::kYes ? p.k : p.m,
          p.a_pitch),
        c(p.out, p.n, p.m),
        d(p.out, p.n, p.m) {}

  void set_pointers(const Product& product, const ProductPointers& pointers) {
    if (has_bias(product.epilogue)) description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
    if (has_aux(product.epilogue)) description.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.aux);
    if (!is_fp8(product.in)) return;
    description.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.b_inverse_scale);
    description.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.a_inverse_scale);
  }

  // The pointers have been set: what the epilogue can do may depend on them.
  void choose(cublasLtHandle_t handle, const Product& product) {
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductionSchemes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      preference.set(attribute, static_cast<std::uint32_t>(product.alignment));
    }
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, description.get(), a.get(), b.get(), c.get(), d.get(), preference.get(),
        static_cast<int>(found.size()), found.data(), &count);
    if (!is_refusal(status)) check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = found[static_cast<std::size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS || !is_deterministic(result.algo)) continue;
      candidates.push_back({result.algo, result.workspaceSize});
    }
    if (candidates.empty() && !is_fused(product)) {
      log_warning(fmt::format("cuda: cuBLASLt has no algorithm for {}; {}", text_of(product),
                              successor(product, /*was_last=*/true)));
    }
  }
};

MatmulLibrary::MatmulLibrary(const std::shared_ptr<Allocator>& allocator)
    : workspace_(allocator, kWorkspaceBytes, MemoryCategory::kWorkspace) {
  check_lt(cublasLtCreate(&handle_), "cublasLtCreate");
}

MatmulLibrary::~MatmulLibrary() {
  plans_.clear();
  if (cublasLtDestroy(handle_) != CUBLAS_STATUS_SUCCESS) log_warning("cuda: cublasLtDestroy failed");
}

MatmulLibrary::Plan& MatmulLibrary::plan_for(cudaStream_t stream, const Product& product,
                                             const ProductPointers& pointers) {
  std::unique_ptr<Plan>& plan = plans_[product];
  if (!plan) {
    expect_no_capture(stream, text_of(product));
    auto fresh = std::make_unique<Plan>(product);
    fresh->set_pointers(product, pointers);
    fresh->choose(handle_, product);
    plan = std::move(fresh);
  }
  return *plan;
}

bool MatmulLibrary::run(cudaStream_t stream, Product product, const ProductPointers& pointers) {
  if (!takes_extents(product)) {
    if (!is_fused(product)) {
      slow_paths_.tell(text_of(product) + ", extents that are no multiples of 16",
                       successor(product, /*was_last=*/true));
    }
    return false;
  }
  product.alignment = common_alignment(pointers);
  Plan& plan = plan_for(stream, product, pointers);
  plan.set_pointers(product, pointers);
  const float alpha = 1.0f, beta = product.add_c ? 1.0f : 0.0f;
  const void* c = product.add_c ? pointers.c : pointers.d;
  while (!plan.candidates.empty()) {
    const Plan::Candidate& candidate = plan.candidates.front();
    const cublasStatus_t status =
        cublasLtMatmul(handle_, plan.description.get(), &alpha, pointers.b, plan.a.get(), pointers.a,
                       plan.b.get(), &beta, c, plan.c.get(), pointers.d, plan.d.get(), &candidate.algorithm,
                       workspace_.data(), candidate.workspace_bytes, stream);
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    if (!is_refusal(status)) {
      throw Error(ErrorCode::kRuntime, "cuda: {} failed: {}", text_of(product),
                  cublasLtGetStatusString(status));
    }
    plan.candidates.pop_front();
    log_warning(fmt::format("cuda: cuBLASLt refused to run {} ({}); {}", text_of(product),
                            cublasLtGetStatusString(status), successor(product, plan.candidates.empty())));
  }
  return false;
}

}  // namespace trireme::cuda
