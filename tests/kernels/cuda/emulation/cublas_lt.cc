// Products of column-major matrices with their epilogues, as NVIDIA's documentation defines them.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/fp8.h"
#include "tests/kernels/cuda/emulation/tensor_core.h"

struct EmulatedLtHandle {};
struct EmulatedLtPreference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t alignment = 256;  // the smallest of the four
  std::uint32_t schemes = 7;
};
struct EmulatedLtLayout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld;
};
struct EmulatedLtDesc {
  cublasComputeType_t compute;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  const float *a_scale = nullptr, *b_scale = nullptr;
};

namespace {

constexpr std::size_t kWorkspaceBytes = 1024;  // for every algorithm

emulation::ProductRefusals refusals;
emulation::ProductAlgorithms algorithms;

// An algorithm consists of the required alignment, its index among the proposals, and a mark of this library.
constexpr std::uint64_t kMark = 0xC0B1A5;

bool is_known(const cublasLtMatmulAlgo_t& algo) {
  return algo.data[2] == kMark && algo.data[1] <= emulation::kInPlaceProduct && algo.data[0] >= 1 &&
         algo.data[0] <= 256;
}

double read(const void* data, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return trireme::float_of_fp8(static_cast<const std::uint8_t*>(data)[i], trireme::kE4m3);
    case CUDA_R_8F_E5M2:
      return trireme::float_of_fp8(static_cast<const std::uint8_t*>(data)[i], trireme::kE5m2);
  }
  return 0;
}

void write(void* data, cudaDataType_t type, std::int64_t i, double value) {
  const auto x = static_cast<float>(value);
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = x;
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half_rn(x);
      return;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(x);
      return;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return;  // kernels/cuda has no product with fp8 results
  }
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

bool is_fp8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

bool has(cublasLtEpilogue_t epilogue, int bit) {
  return (epilogue & bit) != 0;
}

// Element (row, col) of op(x).
double element(const void* x, const EmulatedLtLayout& layout, cublasOperation_t op, std::int64_t row,
               std::int64_t col) {
  return read(x, layout.type, op == CUBLAS_OP_N ? row + col * layout.ld : col + row * layout.ld);
}

template <class T>
bool assign(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return false;
  std::memcpy(&to, value, bytes);
  return true;
}

struct EmulatedProduct {
  EmulatedLtDesc desc;
  EmulatedLtLayout a_layout, b_layout, c_layout, d_layout;
  float alpha = 1, beta = 0;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;

  void run() const {
    const std::int64_t rows = d_layout.rows, cols = d_layout.cols;
    const std::int64_t k = desc.transpose_a == CUBLAS_OP_N ? a_layout.cols : a_layout.rows;
    std::vector<double> a_values = values(a, a_layout, desc.transpose_a, rows, k);
    std::vector<double> b_values = values(b, b_layout, desc.transpose_b, k, cols);
    if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      for (std::vector<double>* operand : {&a_values, &b_values}) {
        for (double& value : *operand) value = emulation::rounded_to_tf32(value);
      }
    }
    std::vector<double> sums(static_cast<std::size_t>(rows));
    for (std::int64_t col = 0; col < cols; ++col) {
      sum_products(a_values.data(), b_values.data() + col * k, rows, k, sums.data());
      for (std::int64_t row = 0; row < rows; ++row) finish(row, col, sums[static_cast<std::size_t>(row)]);
    }
  }

  // Changes the last bits of the first element differently in each run.
  void disturb() const {
    static std::uint8_t run = 0;
    *static_cast<std::uint8_t*>(d) ^= ++run;
  }

  // op(x) as a column-major matrix.
  static std::vector<double> values(const void* x, const EmulatedLtLayout& layout, cublasOperation_t op,
                                    std::int64_t rows, std::int64_t cols) {
    std::vector<double> all;
    all.reserve(static_cast<std::size_t>(rows * cols));
    for (std::int64_t col = 0; col < cols; ++col) {
      for (std::int64_t row = 0; row < rows; ++row) all.push_back(element(x, layout, op, row, col));
    }
    return all;
  }

  // sums = a b for one column b. Sanitizers are off, because the operands have already been read.
  [[gnu::no_sanitize("address,undefined")]] static void sum_products(const double* a, const double* b,
                                                                     std::int64_t rows, std::int64_t k,
                                                                     double* __restrict sums) {
    std::fill(sums, sums + rows, 0.0);
    for (std::int64_t l = 0; l < k; ++l) {
      for (std::int64_t row = 0; row < rows; ++row) sums[row] += a[l * rows + row] * b[l];
    }
  }

  void finish(std::int64_t row, std::int64_t col, double sum) const {
    sum *= alpha;
    if (desc.a_scale != nullptr) sum *= static_cast<double>(*desc.a_scale) * *desc.b_scale;
    if (beta != 0) sum += beta * read(c, c_layout.type, row + col * c_layout.ld);
    if (has(desc.epilogue, 4)) sum += read(desc.bias, d_layout.type, row);
    if (has(desc.epilogue, 128)) write(desc.aux, d_layout.type, row + col * desc.aux_ld, sum);
    if (has(desc.epilogue, 32)) sum = gelu(sum);
    write(d, d_layout.type, row + col * d_layout.ld, sum);
  }
};

}  // namespace

emulation::ProductRefusals& emulation::product_refusals() {
  return refusals;
}

emulation::ProductAlgorithms& emulation::product_algorithms() {
  return algorithms;
}

std::size_t cublasLtGetVersion() {
  return 0;
}

const char* cublasLtGetStatusString(cublasStatus_t) {
  return "emulated status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedLtHandle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new EmulatedLtLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *desc = new EmulatedLtDesc{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

// The real library also checks the size of an attribute's value.
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  bool fits = false;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      fits = assign(desc->transpose_a, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      fits = assign(desc->transpose_b, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      fits = assign(desc->epilogue, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      fits = assign(desc->bias, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      fits = assign(desc->aux, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      fits = assign(desc->aux_ld, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      fits = assign(desc->a_scale, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      fits = assign(desc->b_scale, value, bytes);
      break;
  }
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedLtPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  std::uint32_t number = 0;
  const bool fits = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
                        ? assign(preference->workspace_bytes, value, bytes)
                        : assign(number, value, bytes);
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) preference->schemes = number;
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
    preference->alignment = std::min(preference->alignment, number);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes, std::size_t* written) {
  if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_in_place = algo->data[1] == emulation::kInPlaceProduct;
  std::uint32_t number = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) number = static_cast<std::uint32_t>(algo->data[1]);
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) number = is_in_place ? 4 : 1;
  if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && is_in_place)
    number = CUBLASLT_REDUCTION_SCHEME_INPLACE;
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!is_known(*algo)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = kWorkspaceBytes;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  ++emulation::counts().choices;
  const std::int64_t m = desc->transpose_a == CUBLAS_OP_N ? a->rows : a->cols;
  const std::int64_t k = desc->transpose_a == CUBLAS_OP_N ? a->cols : a->rows;
  const std::int64_t n = desc->transpose_b == CUBLAS_OP_N ? b->cols : b->rows;
  const std::int64_t other_k = desc->transpose_b == CUBLAS_OP_N ? b->rows : b->cols;
  if (k != other_k || d->rows != m || d->cols != n) return CUBLAS_STATUS_INVALID_VALUE;
  if (has(desc->epilogue, 128) && desc->aux_ld % 8 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  // fp8 rules of cuBLAS's table of data types: both operands along k, not both e5m2, extents of 16, no
  // activation.
  if (is_fp8(a->type) || is_fp8(b->type)) {
    const bool along_k = desc->transpose_a == CUBLAS_OP_T && desc->transpose_b == CUBLAS_OP_N;
    if (!along_k || !is_fp8(a->type) || !is_fp8(b->type) || m % 16 != 0 || n % 16 != 0 || k % 16 != 0 ||
        (a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2) || has(desc->epilogue, 32) ||
        desc->a_scale == nullptr || desc->b_scale == nullptr ||
        (d->type != CUDA_R_32F && d->type != CUDA_R_16BF) ||
        (has(desc->epilogue, 4) && d->type != CUDA_R_16BF)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  // An algorithm needs the promised alignment, and the workspace that it was given.
  const bool in_place = (preference->schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
  const int proposed = emulation::kProposedProducts + (in_place ? 1 : 0);
  for (*count = 0; *count < std::min(most, proposed); ++*count) {
    results[*count] = {.algo = {.data = {preference->alignment, static_cast<std::uint64_t>(*count), kMark}},
                       .workspaceSize = std::min<std::size_t>(kWorkspaceBytes, preference->workspace_bytes),
                       .state = CUBLAS_STATUS_SUCCESS};
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Everything but the matrices is read when the product is enqueued, as in the real library.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!is_known(*algo)) return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* pointer :
       {a, b, c, static_cast<const void*>(d), desc->bias, const_cast<const void*>(desc->aux)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % algo->data[0] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (has(desc->epilogue, 4) && desc->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (has(desc->epilogue, 128) && (desc->aux == nullptr || desc->aux_ld < d_layout->rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace == nullptr || workspace_bytes < kWorkspaceBytes) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_fused = desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT || *static_cast<const float*>(beta) != 0;
  if (static_cast<int>(algo->data[1]) < (is_fused ? refusals.fused : refusals.plain)) {
    ++refusals.count;
    return algo->data[1] % 2 == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
  }
  ++emulation::counts().launches;
  const int place = static_cast<int>(algo->data[1]);
  ++algorithms.runs[algo->data[1]];
  emulated_enqueue(stream, [=] { std::memset(workspace, 0xFF, kWorkspaceBytes); });
  emulated_enqueue(stream, [product = EmulatedProduct{.desc = *desc,
                                                      .a_layout = *a_layout,
                                                      .b_layout = *b_layout,
                                                      .c_layout = *c_layout,
                                                      .d_layout = *d_layout,
                                                      .alpha = *static_cast<const float*>(alpha),
                                                      .beta = *static_cast<const float*>(beta),
                                                      .a = a,
                                                      .b = b,
                                                      .c = c,
                                                      .d = d},
                            place] {
    product.run();
    if (place == emulation::kInPlaceProduct && !algorithms.in_place_repeats) product.disturb();
    emulation::clock_us() += algorithms.us ? algorithms.us(place) : 200.0;
  });
  return CUBLAS_STATUS_SUCCESS;
}
