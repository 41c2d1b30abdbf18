// The operator table: everything an op of runtime/ops may ask of a device, as one struct of function pointers
// that a backend fills in one place. No autograd here, no shapes to infer: callers (runtime/ops,
// runtime/optim) have checked shapes and dtypes, kernels compute over views.
//
// [Note: kernel contracts]
//  * Views are contiguous row-major. `const` views are never written. Outputs may be uninitialised and are
//  fully
//    written, unless a GradientMode says otherwise. In-place aliasing is allowed only where an args struct
//    says so.
//  * Work is enqueued on `exec.stream` (a CPU backend has finished when it returns).
//  * Results are bit-identical for any number of threads: work is cut by shape alone, and no sum's order
//  depends
//    on who computes it. No floating-point atomics.
//  * dtypes: T is fp32, fp16 or bf16, one for all tensors of a call that the args do not fix to fp32 or
//  int32:
//    activations, their gradients, working copies of parameters. Parameter gradients, statistics and losses
//    are fp32; d of a matmul may be fp32 beside 16-bit a and b (weight gradients). 16-bit results are rounded
//    once, to nearest, ties to even, when they are stored; what overflows becomes infinite.
//  * Matmul, convolution and attention accumulate in fp32; norms, softmax, losses and reductions compute in
//  fp32.
//  * A null entry means the backend lacks the op; an entry throws Error(kUnsupported) naming op, device and
//  dtype
//    for a dtype it lacks.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/allocator.h"
#include "runtime/base/device.h"
#include "runtime/base/rng.h"
#include "runtime/base/tensor_view.h"

namespace trireme {

/// The execution resources of one rank.
struct KernelContext {
  Device device;
  void* stream = nullptr;          // of Backend::make_stream; null where the backend has none
  int num_threads = 1;             // threads this rank may use on the host
  Allocator* allocator = nullptr;  // for MemoryCategory::kWorkspace
};

/// What a kernel does with a gradient it computes for memory that lasts longer than itself.
enum class GradientMode : std::uint8_t {
  kIgnore,      // not wanted, the view is undefined
  kOverwrite,   // view = gradient
  kAccumulate,  // view += gradient
};

enum class Activation : std::uint8_t {
  kNone,
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in GPT-2
};

enum class Transpose : std::uint8_t { kNo, kYes };

/// How fp32 inputs of a product are read; 16-bit inputs are always exact.
enum class MathMode : std::uint8_t {
  kFp32,  // as they are
  kTf32,  // rounded to 10 mantissa bits (to nearest, ties to even), accumulated in fp32
};

/// d = act(op(a) op(b) + bias) + residual, or d += op(a) op(b).
struct MatmulArgs {
  ConstTensorView a;  // [M, K], or [K, M] with transpose_a
  ConstTensorView b;  // [K, N], or [N, K] with transpose_b
  TensorView d;       // [M, N]
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  MathMode math = MathMode::kFp32;
  GradientMode mode = GradientMode::kOverwrite;  // kAccumulate excludes the epilogue below
  ConstTensorView bias;                          // [N], or undefined
  Activation activation = Activation::kNone;
  TensorView pre_activation;  // [M, N], or undefined: receives the argument of the activation
  ConstTensorView residual;   // [M, N], or undefined: added after the activation; may be d itself
};

/// out[n] (+)= sum over rows of x[m, n], rows in order.
struct ColumnSumArgs {
  ConstTensorView x;  // [M, N]
  TensorView out;     // [N] fp32
  GradientMode mode = GradientMode::kOverwrite;
};

/// dx = dy * act'(pre). dx may be dy.
struct ActivationBwdArgs {
  ConstTensorView dy, pre;
  TensorView dx;
  Activation activation = Activation::kGeluTanh;
};

/// y = (x - mean) * rstd * gamma + beta over the last dim; biased variance.
struct LayerNormFwdArgs {
  ConstTensorView x;            // [M, C]
  ConstTensorView gamma, beta;  // [C]
  TensorView y;                 // [M, C]
  TensorView mean, rstd;        // [M] fp32
  float epsilon = 1e-5f;
  float gamma_center = 0.0f;  // added to each element of gamma, in fp32
};

struct LayerNormBwdArgs {
  ConstTensorView dy, x;       // [M, C]
  ConstTensorView gamma;       // [C]
  ConstTensorView mean, rstd;  // [M]
  ConstTensorView dx_add;      // [M, C], or undefined: added to dx (the residual branch); may be dx itself
  TensorView dx;               // [M, C]; may be dy or dx_add
  TensorView dgamma, dbeta;    // [C] fp32
  GradientMode dgamma_mode = GradientMode::kOverwrite;
  GradientMode dbeta_mode = GradientMode::kOverwrite;
  float gamma_center = 0.0f;  // as in forward
};

/// Softmax(scale Q K^T) V without ever holding [T, T] (Dao et al. 2022). Packed: qkv[b, t] = [q | k | v],
/// each [num_heads, head_dim]. Dropout, when p > 0, drops probabilities: element index of (head, query, key)
/// is (head * T + query) * T + key within its sample, drawn as in DropoutArgs.
struct AttentionFwdArgs {
  ConstTensorView qkv;  // [B, T, 3 * C]
  TensorView out;       // [B, T, C]
  TensorView lse;       // [B, num_heads, T] fp32: log-sum-exp of the scaled scores
  int num_heads = 1;
  float scale = 1.0f;
  bool causal = true;
  MathMode math = MathMode::kFp32;
  float dropout_p = 0.0f;
  RngKey rng;
  std::int64_t first_sample = 0;
};

struct AttentionBwdArgs {
  ConstTensorView dout, qkv, out;  // [B, T, C], [B, T, 3 * C], [B, T, C]
  ConstTensorView lse;             // [B, num_heads, T]
  TensorView dqkv;                 // [B, T, 3 * C]
  int num_heads = 1;
  float scale = 1.0f;
  bool causal = true;
  MathMode math = MathMode::kFp32;
  float dropout_p = 0.0f;
  RngKey rng;
  std::int64_t first_sample = 0;
};

/// x[b, t] = table[tokens[b, t]] (+ positions[t]).
struct EmbeddingFwdArgs {
  ConstTensorView tokens;     // [B, T] int32, each in [0, V)
  ConstTensorView table;      // [V, C]
  ConstTensorView positions;  // [>= T, C], or undefined
  TensorView x;               // [B, T, C]
};

/// Rows are added in token order; rows that no token names are zero (kOverwrite) or untouched (kAccumulate).
struct EmbeddingBwdArgs {
  ConstTensorView dx;      // [B, T, C]
  ConstTensorView tokens;  // [B, T] int32
  TensorView dtable;       // [V, C] fp32, or undefined
  TensorView dpositions;   // [>= T, C] fp32, or undefined; rows >= T as rows without token
  GradientMode dtable_mode = GradientMode::kOverwrite;
  GradientMode dpositions_mode = GradientMode::kOverwrite;
};

/// y = keep ? x / (1 - p) : 0 (+ residual). Dim 0 of x is the sample; element e of global sample s is kept
/// when uniform_from_bits(rng.draw(s, e / 4)[e % 4]) >= p. Applied to dy, without residual, it is its own
/// backward.
struct DropoutArgs {
  ConstTensorView x;         // [B, ...]
  ConstTensorView residual;  // like x, or undefined
  TensorView y;              // may be x or residual
  float p = 0.0f;
  RngKey rng;
  std::int64_t first_sample = 0;
};

/// loss = loss_scale * sum over rows of their losses, rows added in order. A row with K targets t_k >= 0 of
/// weights w_k (1 without target_weights; a negative target has weight 0), W their sum, and s =
/// label_smoothing has the loss (1 - s) sum_k w_k -log p[t_k] + s W mean_j -log p[j], p = softmax(logits).
/// With write_gradient, logits become gradient_scale * d loss / d logits in place, scaled before they are
/// rounded to the dtype of the logits.
struct SoftmaxCrossEntropyArgs {
  TensorView logits;               // [M, V]
  ConstTensorView targets;         // [M * K] int32; negative = ignored
  ConstTensorView target_weights;  // [M * K] fp32, or undefined: all 1 (K may still be more than 1)
  TensorView loss;                 // [] fp32
  float loss_scale = 1.0f;         // usually 1 / (tokens of the global batch)
  float label_smoothing = 0.0f;    // in [0, 1)
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1. The loss scaler's factor; not part of the loss
  bool write_gradient = false;
};

/// Whether max(0, .) follows in the same pass.
enum class Rectify : std::uint8_t { kNo, kYes };

/// Stride and zero padding of a convolution, the same along both sides of an image, and its groups.
struct ConvGeometry {
  std::int64_t stride = 1, padding = 0, groups = 1;
  auto operator<=>(const ConvGeometry&) const = default;
};

/// y[b, i, j, o] = bias[o] + sum over r, s, c of x[b, i * stride + r - padding, ..., c] weight[o, c, r, s],
/// channel o reading the c of its group alone. Images are NHWC, weights as in PyTorch.
struct Conv2dFwdArgs {
  ConstTensorView x;       // [B, H, W, C]
  ConstTensorView weight;  // [O, C / groups, R, S]
  ConstTensorView bias;    // [O], or undefined
  TensorView y;            // [B, (H + 2 padding - R) / stride + 1, ..., O]
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
};

struct Conv2dBwdDataArgs {
  ConstTensorView dy, weight;
  ConstTensorView dx_add;  // like dx, or undefined: added to dx (another use of x); may be dx itself
  TensorView dx;
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
};

struct Conv2dBwdWeightArgs {
  ConstTensorView dy, x;
  TensorView dweight;  // fp32
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
  GradientMode mode = GradientMode::kOverwrite;
};

/// y = rectify((x - mean) * rstd * gamma + beta + residual), mean and biased variance of each channel over
/// the rows (Ioffe & Szegedy 2015).
struct BatchNormFwdArgs {
  ConstTensorView x;            // [..., C], M rows
  ConstTensorView gamma, beta;  // [C]
  ConstTensorView residual;     // like x, or undefined
  TensorView y;                 // like x
  TensorView mean, rstd;        // [C] fp32
  TensorView variance;  // [C] fp32, or undefined: M / (M - 1) of the biased one (M = 1: the biased one)
  float epsilon = 1e-5f;
  Rectify rectify = Rectify::kNo;
};

/// The same with given statistics.
struct BatchNormInferArgs {
  ConstTensorView x;
  ConstTensorView gamma, beta;
  ConstTensorView mean, variance;  // [C] fp32
  ConstTensorView residual;
  TensorView y;  // may be x or residual
  float epsilon = 1e-5f;
  Rectify rectify = Rectify::kNo;
};

/// With g = dy where the rectifier let pass (y > 0), else 0: dresidual = g, dbeta = sum g,
/// dgamma = sum g xhat, dx = gamma rstd (g - (dbeta + xhat dgamma) / M).
struct BatchNormBwdArgs {
  ConstTensorView dy, x;        // [..., C]
  ConstTensorView y;            // what fwd returned; wanted with a rectifier behind a residual alone
  ConstTensorView gamma, beta;  // [C]
  ConstTensorView mean, rstd;   // [C] fp32
  TensorView dx;                // may be dy
  TensorView dresidual;         // or undefined; may be dy, if dx is not
  TensorView dgamma, dbeta;     // [C] fp32
  GradientMode dgamma_mode = GradientMode::kOverwrite;
  GradientMode dbeta_mode = GradientMode::kOverwrite;
  Rectify rectify = Rectify::kNo;
};

/// y = max(0, x); NaN passes. y may be x.
struct ReluArgs {
  ConstTensorView x;
  TensorView y;
};

/// dx = dy where y > 0, else 0. dx may be dy.
struct ReluBwdArgs {
  ConstTensorView dy, y;
  TensorView dx;
};

/// A window that slides over an image, `padding` pixels beyond its borders.
struct PoolWindow {
  std::int64_t height = 1, width = 1, stride = 1, padding = 0;
  bool operator==(const PoolWindow&) const = default;
};

/// y = the largest of the window, padding left out; the first of equals, and NaN before any number.
struct MaxPoolFwdArgs {
  ConstTensorView x;  // [B, H, W, C]
  TensorView y;       // [B, (H + 2 padding - height) / stride + 1, ..., C]
  TensorView place;   // like y, uint8, or undefined: row * width + column of it within the window
  PoolWindow window;  // of at most 256 pixels; padding at most half of it
};

struct MaxPoolBwdArgs {
  ConstTensorView dy, place;
  TensorView dx;
  PoolWindow window;
};

/// y = the sum of the window over its pixels, padding counted as zeros.
struct AvgPoolFwdArgs {
  ConstTensorView x;
  TensorView y;
  PoolWindow window;
};

struct AvgPoolBwdArgs {
  ConstTensorView dy;
  TensorView dx;
  PoolWindow window;
};

/// value = (1 - momentum) value + momentum sample.
struct MoveAverageArgs {
  TensorView value;        // [n] fp32
  ConstTensorView sample;  // [n] fp32
  float momentum = 0.1f;
  ConstTensorView skip;  // [] int32, or undefined: nothing is written when it is not 0
};

/// out = a + b; out may be a or b.
struct AddArgs {
  ConstTensorView a, b;
  TensorView out;
};

/// y = x - center in y's dtype, rounded to nearest, ties to even.
struct CastArgs {
  ConstTensorView x;
  TensorView y;
  float center = 0.0f;
};

/// x *= *factor for a factor on the device.
struct ScaleArgs {
  TensorView x;
  ConstTensorView factor;  // [] fp32
};

// [Note: gradient norm] Sums of squares of fixed blocks of kNormBlock elements; every parameter starts at a
// multiple of kNormBlock, so the blocks, and the order in which they are added, are the same for every
// sharding.
inline constexpr std::int64_t kNormBlock = 1024;

/// partials[i] = sum of squares of x[i * kNormBlock ...), in a fixed order, in fp32.
struct SquaredNormBlocksArgs {
  ConstTensorView x;    // [n], n a multiple of kNormBlock
  TensorView partials;  // [n / kNormBlock] fp32
};

/// With s = *gradient_scale, the factor that the gradients carry: norm = sqrt(sum of partials, in order, in
/// fp64) / s; clip = min(1, max_norm / (norm + 1e-6)) / s, or 1 / s when max_norm <= 0. So clip * gradient is
/// both unscaled and clipped. Not finite partials give a norm that is not finite.
struct ClipCoefficientArgs {
  ConstTensorView partials;  // [k] fp32
  TensorView norm, clip;     // [] fp32
  float max_norm = 0.0f;
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1
};

/// What becomes of a step, decided on the device (GradScaler's rule, Micikevicius et al. 2018):
///   skip = norm is not finite
///   skip:  skipped_in_a_row += 1, clean_steps = 0, scale *= backoff_factor
///   clean: skipped_in_a_row = 0, step += 1, clean_steps += 1; at growth_interval: scale *= growth_factor
///          (unless that is infinite), clean_steps = 0
/// Without `scale` (undefined, as clean_steps is then) only skip, skipped_in_a_row and step are written. A
/// growth_interval of 0 leaves a static scale as it is.
struct UpdateLossScaleArgs {
  ConstTensorView norm;                                  // [] fp32
  TensorView scale;                                      // [] fp32, or undefined
  TensorView clean_steps, skip, skipped_in_a_row, step;  // [] int32
  float growth_factor = 2.0f, backoff_factor = 0.5f;
  std::int32_t growth_interval = 2000;
};

/// AdamW (Loshchilov & Hutter 2019), decoupled decay, bias-corrected:
///   g = clip * grad; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2
///   p -= lr * decay * p;  p -= lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
/// `lr` and `step` live on the device so that a captured step replays with new values.
struct AdamWArgs {
  TensorView param, exp_avg, exp_avg_sq;  // [n] fp32
  ConstTensorView grad;                   // [n] fp32, fp16 or bf16
  TensorView working;  // [n] compute dtype, or undefined when the master is the working copy: p - center
  ConstTensorView lr, clip;  // [] fp32
  ConstTensorView step;      // [] int32: t, 1 for the first update
  ConstTensorView skip;      // [] int32, or undefined: nothing is written when it is not 0
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0.0f;
  float working_center = 0.0f;
};

/// SGD with momentum as in PyTorch: g = clip * grad + decay * p; buf = t == 1 ? g : momentum * buf + g;
/// p -= lr * (nesterov ? g + momentum * buf : buf). Without momentum, `momentum_buffer` is undefined.
struct SgdArgs {
  TensorView param, momentum_buffer;  // [n] fp32
  ConstTensorView grad;               // [n] fp32, fp16 or bf16
  TensorView working;
  ConstTensorView lr, clip, step, skip;  // as in AdamWArgs
  float momentum = 0.0f, weight_decay = 0.0f;
  float working_center = 0.0f;
  bool nesterov = false;
};

/// The devices of a backend on this machine, for people and for choosing one.
struct DeviceReport {
  struct Card {
    std::string name;          // "NVIDIA H200"
    std::string pci_bus_id;    // "0000:3B:00.0", or empty
    std::string architecture;  // "sm_90"
    std::int64_t memory_bytes = 0;
    int num_multiprocessors = 0;
  };
  std::vector<Card> devices;                                  // by Device::index
  std::string problem;                                        // why there is none; else empty
  std::vector<std::pair<std::string, std::string>> versions;  // of driver and libraries, by name
  std::vector<std::string> links;                             // "0 - 1: 18 NVLinks"
};

/// Host memory that copies from a device land in while the host goes on.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  /// Enqueues a copy of `src`, of at most as many bytes as this was made for, on exec.stream. The last one
  /// must have been waited for.
  virtual void start(const KernelContext& exec, ConstTensorView src) = 0;
  /// The bytes, until the next start(). Waits for the copy and what was enqueued before it, not for what came
  /// after.
  virtual const void* wait() = 0;
};

struct Backend {
  const char* name = "";
  /// Null on backends whose device is the machine itself. Throws nothing but std::bad_alloc.
  DeviceReport (*examine_devices)() = nullptr;

  // Memory and transfers. A source for one rank; host <-> device copies are ordered on exec.stream,
  // copy_to_host returns when the bytes are on the host, synchronize when all enqueued work is done.
  std::unique_ptr<MemorySource> (*make_memory_source)(Device device) = nullptr;
  /// The compute stream of one rank, with what libraries keep for it: what KernelContext::stream points to.
  /// On cpu that is what is kept alone, and calls do without it. Null on backends with neither.
  std::shared_ptr<void> (*make_stream)(Device device, std::shared_ptr<Allocator> allocator) = nullptr;
  /// Null on backends without streams, whose copies are done when they return.
  std::unique_ptr<HostCopy> (*make_host_copy)(const KernelContext& exec, std::size_t bytes) = nullptr;
  /// exec.stream as the vendor's libraries know it (cudaStream_t), for communicators.
  void* (*native_stream)(const KernelContext& exec) = nullptr;
  void (*copy_from_host)(const KernelContext& exec, TensorView dst, const void* src) = nullptr;
  void (*copy_to_host)(const KernelContext& exec, void* dst, ConstTensorView src) = nullptr;
  void (*copy)(const KernelContext& exec, TensorView dst, ConstTensorView src) = nullptr;  // same dtype
  void (*fill_zero)(const KernelContext& exec, TensorView dst) = nullptr;
  void (*synchronize)(const KernelContext& exec) = nullptr;

  // Recorded work, played again: see parallel/step_graph.h. Null on backends without it. Between
  // begin_capture and end_capture what is enqueued on exec.stream is recorded and not run; waiting for the
  // stream is an error then. A graph reads and writes the addresses that it was recorded with.
  void (*begin_capture)(const KernelContext& exec) = nullptr;
  std::shared_ptr<void> (*end_capture)(const KernelContext& exec) = nullptr;
  void (*launch_graph)(const KernelContext& exec, const std::shared_ptr<void>& graph) = nullptr;

  /// Called once on the thread that becomes a rank (thread pools, current device).
  void (*bind_thread)(const KernelContext& exec) = nullptr;

  void (*matmul)(const KernelContext&, const MatmulArgs&) = nullptr;
  void (*column_sum)(const KernelContext&, const ColumnSumArgs&) = nullptr;
  void (*activation_bwd)(const KernelContext&, const ActivationBwdArgs&) = nullptr;
  void (*layer_norm_fwd)(const KernelContext&, const LayerNormFwdArgs&) = nullptr;
  void (*layer_norm_bwd)(const KernelContext&, const LayerNormBwdArgs&) = nullptr;
  void (*attention_fwd)(const KernelContext&, const AttentionFwdArgs&) = nullptr;
  void (*attention_bwd)(const KernelContext&, const AttentionBwdArgs&) = nullptr;
  void (*embedding_fwd)(const KernelContext&, const EmbeddingFwdArgs&) = nullptr;
  void (*embedding_bwd)(const KernelContext&, const EmbeddingBwdArgs&) = nullptr;
  void (*dropout)(const KernelContext&, const DropoutArgs&) = nullptr;
  void (*softmax_cross_entropy)(const KernelContext&, const SoftmaxCrossEntropyArgs&) = nullptr;
  void (*conv2d_fwd)(const KernelContext&, const Conv2dFwdArgs&) = nullptr;
  void (*conv2d_bwd_data)(const KernelContext&, const Conv2dBwdDataArgs&) = nullptr;
  void (*conv2d_bwd_weight)(const KernelContext&, const Conv2dBwdWeightArgs&) = nullptr;
  void (*batch_norm_fwd)(const KernelContext&, const BatchNormFwdArgs&) = nullptr;
  void (*batch_norm_infer)(const KernelContext&, const BatchNormInferArgs&) = nullptr;
  void (*batch_norm_bwd)(const KernelContext&, const BatchNormBwdArgs&) = nullptr;
  void (*relu)(const KernelContext&, const ReluArgs&) = nullptr;
  void (*relu_bwd)(const KernelContext&, const ReluBwdArgs&) = nullptr;
  void (*max_pool_fwd)(const KernelContext&, const MaxPoolFwdArgs&) = nullptr;
  void (*max_pool_bwd)(const KernelContext&, const MaxPoolBwdArgs&) = nullptr;
  void (*avg_pool_fwd)(const KernelContext&, const AvgPoolFwdArgs&) = nullptr;
  void (*avg_pool_bwd)(const KernelContext&, const AvgPoolBwdArgs&) = nullptr;
  void (*move_average)(const KernelContext&, const MoveAverageArgs&) = nullptr;
  void (*add)(const KernelContext&, const AddArgs&) = nullptr;
  void (*cast)(const KernelContext&, const CastArgs&) = nullptr;
  void (*scale)(const KernelContext&, const ScaleArgs&) = nullptr;
  void (*squared_norm_blocks)(const KernelContext&, const SquaredNormBlocksArgs&) = nullptr;
  void (*clip_coefficient)(const KernelContext&, const ClipCoefficientArgs&) = nullptr;
  void (*update_loss_scale)(const KernelContext&, const UpdateLossScaleArgs&) = nullptr;
  void (*adamw)(const KernelContext&, const AdamWArgs&) = nullptr;
  void (*sgd)(const KernelContext&, const SgdArgs&) = nullptr;
};

[[noreturn]] void throw_missing_entry(const Backend& backend, const char* op);

/// An entry of `backend`'s table, for the ops that not every backend has: throws Error(kUnsupported) naming
/// op and device where it is null.
template <class Entry>
Entry required(const Backend& backend, Entry Backend::*entry, const char* op) {
  if (backend.*entry == nullptr) throw_missing_entry(backend, op);
  return backend.*entry;
}

/// The table of a device type. Throws Error(kUnsupported) for one that this build lacks.
const Backend& backend_for(DeviceType type);

// Each defined in its own folder.
const Backend& cpu_backend();
const Backend& meta_backend();
const Backend& cuda_backend();  // in builds with TRIREME_CUDA

}  // namespace trireme
