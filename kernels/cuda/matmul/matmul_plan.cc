#include "kernels/cuda/matmul/matmul_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/cuda/quantize.h"
#include "runtime/base/error.h"

namespace trireme::cuda {
namespace {

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

// 16-bit inputs are exact and their products are summed in fp32 in every mode.
cublasComputeType_t lt_compute_type(const Product& product) {
  return product.in == DType::kFloat32 && product.math == MathMode::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                          : CUBLAS_COMPUTE_32F;
}

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kGeluBias || epilogue == Epilogue::kGeluAuxBias;
}

bool has_aux(Epilogue epilogue) {
  return epilogue == Epilogue::kGeluAux || epilogue == Epilogue::kGeluAuxBias;
}

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_lt(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
           "cublasLtMatmulDescSetAttribute");
}

LtOwner<cublasLtMatmulDesc_t> make_description(const Product& product) {
  cublasLtMatmulDesc_t made = nullptr;
  check_lt(cublasLtMatmulDescCreate(&made, lt_compute_type(product), CUDA_R_32F), "cublasLtMatmulDescCreate");
  LtOwner<cublasLtMatmulDesc_t> description(made);
  // Operands are exchanged: see [Note: row-major products].
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_b == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_a == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(product.epilogue));
  if (has_aux(product.epilogue)) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
  return description;
}

LtOwner<cublasLtMatrixLayout_t> make_layout(DType dtype, std::int64_t rows, std::int64_t cols,
                                            std::int64_t pitch = 0) {
  cublasLtMatrixLayout_t made = nullptr;
  check_lt(cublasLtMatrixLayoutCreate(&made, lt_type(dtype), static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(cols), pitch == 0 ? rows : pitch),
           "cublasLtMatrixLayoutCreate");
  return LtOwner<cublasLtMatrixLayout_t>(made);
}

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

// See [Note: deterministic products] and [Note: measured algorithms].
constexpr std::uint32_t kReductionSchemes =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
constexpr std::uint32_t kMeasuredFp32Schemes =
    kReductionSchemes | CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

std::uint32_t measured_schemes(const Product& product) {
  return product.out == DType::kFloat32 ? kMeasuredFp32Schemes : kReductionSchemes;
}

// Empty for algorithms without this attribute.
std::optional<std::uint32_t> config_of(const cublasLtMatmulAlgo_t& algorithm,
                                       cublasLtMatmulAlgoConfigAttributes_t what) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS ? std::optional(value) : std::nullopt;
}

std::uint32_t reduction_scheme(const cublasLtMatmulAlgo_t& algorithm) {
  const auto scheme = config_of(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  if (!scheme) throw Error(ErrorCode::kRuntime, "cuda: an algorithm of cuBLASLt has no reduction scheme");
  return *scheme;
}

bool keeps(const cublasLtMatmulAlgo_t& algorithm, std::uint32_t reduction_schemes) {
  return (reduction_scheme(algorithm) & ~reduction_schemes) == 0;
}

}  // namespace

void check_lt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kRuntime,
              "cuda: {} failed: {}", call, cublasLtGetStatusString(status));
}

bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

bool is_fused(const Product& product) {
  return product.add_c || product.epilogue != Epilogue::kNone;
}

std::string text_of(const Product& p) {
  return fmt::format("matmul of [{} x {} x {}], {} to {}{}", p.m, p.n, p.k, name(p.in), name(p.out),
                     is_fused(p) ? ", with what is done to it" : "");
}

void DestroyLt::operator()(cublasLtMatmulDesc_t description) const noexcept {
  (void)cublasLtMatmulDescDestroy(description);
}

void DestroyLt::operator()(cublasLtMatrixLayout_t layout) const noexcept {
  (void)cublasLtMatrixLayoutDestroy(layout);
}

MatmulPlan::MatmulPlan(cublasLtHandle_t handle, const Product& product)
    : handle_(handle),
      product_(product),
      description_(make_description(product)),
      a_(product.transpose_b == Transpose::kYes
             ? make_layout(b_type(product), product.k, product.n, product.b_pitch)
             : make_layout(b_type(product), product.n, product.k, product.b_pitch)),
      b_(product.transpose_a == Transpose::kYes
             ? make_layout(product.in, product.m, product.k, product.a_pitch)
             : make_layout(product.in, product.k, product.m, product.a_pitch)),
      c_(make_layout(product.out, product.n, product.m, product.d_pitch)),
      d_(make_layout(product.out, product.n, product.m, product.d_pitch)) {}

void MatmulPlan::set_pointers(const ProductPointers& pointers) {
  const auto set_pointer = [this](cublasLtMatmulDescAttributes_t attribute, const void* pointer) {
    set(description_.get(), attribute, pointer);
  };
  if (has_bias(product_.epilogue)) set_pointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  if (has_aux(product_.epilogue)) set_pointer(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.aux);
  if (!is_fp8(product_.in)) return;
  set_pointer(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.b_inverse_scale);
  set_pointer(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.a_inverse_scale);
}

std::vector<MatmulPlan::Candidate> MatmulPlan::proposals(int most, std::uint32_t reduction_schemes) const {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMatmulWorkspaceBytes);
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    preference.set(attribute, static_cast<std::uint32_t>(product_.alignment));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, description_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                                     preference.get(), most, found.data(), &count);
  if (!is_refusal(status)) check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Candidate> kept;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || !keeps(result.algo, reduction_schemes)) continue;
    kept.push_back({result.algo, result.workspaceSize});
  }
  return kept;
}

void MatmulPlan::choose() {
  constexpr int kMost = 8;
  const std::vector<Candidate> found = proposals(kMost, kReductionSchemes);
  candidates_.assign(found.begin(), found.end());
}

std::vector<MatmulPlan::Candidate> MatmulPlan::choose_many() const {
  constexpr int kMost = 24;
  return proposals(kMost, measured_schemes(product_));
}

std::string MatmulPlan::prefer(const ProductAlgorithm& words) {
  cublasLtMatmulAlgo_t algorithm{};
  static_assert(sizeof(algorithm) == sizeof(words));
  std::memcpy(&algorithm, words.data(), sizeof(algorithm));
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, description_.get(), a_.get(), b_.get(),
                                                        c_.get(), d_.get(), &algorithm, &result);
  if (is_refusal(status)) return cublasLtGetStatusString(status);
  check_lt(status, "cublasLtMatmulAlgoCheck");
  if (result.workspaceSize > kMatmulWorkspaceBytes) {
    return fmt::format("it wants {} bytes of workspace, and has {}", result.workspaceSize,
                       kMatmulWorkspaceBytes);
  }
  if (!keeps(algorithm, measured_schemes(product_))) return "it adds parts in no order that keeps bits";
  std::erase_if(candidates_, [&](const Candidate& other) { return words_of(other.algorithm) == words; });
  candidates_.push_front({algorithm, result.workspaceSize});
  return "";
}

cublasStatus_t MatmulPlan::enqueue(cudaStream_t stream, const Candidate& candidate,
                                   const ProductPointers& pointers, void* workspace) const {
  const float alpha = 1.0f, beta = product_.add_c ? 1.0f : 0.0f;
  const void* c = product_.add_c ? pointers.c : pointers.d;
  return cublasLtMatmul(handle_, description_.get(), &alpha, pointers.b, a_.get(), pointers.a, b_.get(),
                        &beta, c, c_.get(), pointers.d, d_.get(), &candidate.algorithm, workspace,
                        candidate.workspace_bytes, stream);
}

ProductAlgorithm words_of(const cublasLtMatmulAlgo_t& algorithm) {
  ProductAlgorithm words{};
  std::memcpy(words.data(), &algorithm, sizeof(algorithm));
  return words;
}

bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm) {
  return (reduction_scheme(algorithm) & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
}

std::string describe(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const auto& [attribute, what] : {std::pair(CUBLASLT_ALGO_CONFIG_ID, "id"),
                                        {CUBLASLT_ALGO_CONFIG_TILE_ID, "tile"},
                                        {CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages"},
                                        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "splits"}}) {
    const auto value = config_of(algorithm, attribute);
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, *value);
  }
  return adds_in_place(algorithm) ? text + " in place" : text;
}

}  // namespace trireme::cuda
