// The arithmetic of the cpu backend as tables of serial functions over raw pointers, built once per
// instruction set (folder isa/) and chosen at run time.
//
// [Note: instruction sets] The binary must run on an old laptop and use AVX-512 where available. So the files
// of isa/ are compiled several times, each time into another namespace with other -m flags. numerics() picks
// the newest set that this machine supports. These objects must not contain inline or template functions with
// external linkage: the linker keeps one copy for the whole program, perhaps the AVX-512 one. Hence only raw
// pointers and static functions there, plain structs here, and a test that reads the symbols. Results of
// different sets differ in last bits. Results of different CPU vendors may differ too, because GELU starts
// from vrcp14ps, whose last bits depend on the vendor.
//
// [Note: who cuts] These functions are unaware of threads. Callers (kernels/cpu/*.cc) split sums by shape
// alone and distribute the pieces, so results are bit-identical for any number of threads.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cpu/image_numerics.h"
#include "kernels/cpu/matmul/gemm_numerics.h"

namespace trireme::cpu {

/// The element type of a tensor, and its conversion when read as fp32. 16-bit values are passed as their
/// bits.
enum class Element : std::uint8_t {
  kFp32,
  kFp16,
  kBf16,
  kTf32,  // fp32 in memory, rounded to 10 mantissa bits when it is read
};

/// A finished matmul tile, still in cache: d = act(d + bias) + residual.
struct EpilogueTile {
  float* d;
  std::int64_t rows, cols, pitch;  // pitch: floats between rows of d and of pre_activation
  const float* bias;               // [cols], or null
  float* pre_activation;           // like d, or null
  const float* residual;           // [rows, cols], or null; may be d
  std::int64_t residual_pitch;
  Activation activation;
};

struct ActivationNumerics {
  void (*epilogue)(const EpilogueTile& tile);
  void (*gelu_tanh_bwd)(const float* dy, const float* pre, float* dx, std::int64_t n);
  void (*gelu_bwd)(const float* dy, const float* pre, float* dx, std::int64_t n);  // the exact (erf) GELU
  void (*tanh_bwd)(const float* dy, const float* pre, float* dx, std::int64_t n);
  void (*silu_bwd)(const float* dy, const float* pre, float* dx, std::int64_t n);
  void (*swiglu)(const float* gate, const float* up, float* y, std::int64_t n);
  /// dgate may be gate, dup may be up.
  void (*swiglu_bwd)(const float* dy, const float* gate, const float* up, float* dgate, float* dup,
                     std::int64_t n);
};

/// The random numbers of one op: see RngKey and [Note: random numbers].
struct PhiloxKey {
  std::uint32_t key[2];
  std::uint32_t step, block_op;
};

struct DropoutRun {
  const float* x;
  const float* residual;  // or null
  float* y;
  std::int64_t n;
  std::int64_t first_elem;  // of x[0] within its sample, a multiple of 4
  std::uint32_t sample;
  float p;
  PhiloxKey key;
};

struct ElementwiseNumerics {
  void (*add)(const float* a, const float* b, float* out, std::int64_t n);
  void (*mul)(const float* a, const float* b, float* out, std::int64_t n);
  /// sum [n] += rows of n, `pitch` floats apart, in order.
  void (*add_rows)(const float* x, std::int64_t rows, std::int64_t pitch, float* sum, std::int64_t n);
  void (*scale)(float* x, float factor, std::int64_t n);
  void (*dropout)(const DropoutRun& run);
  /// partials[i] = sum of squares of the i-th 1024 elements.
  void (*squared_norm_blocks)(const float* x, float* partials, std::int64_t num_blocks);
  /// The sum of (a - b)^2.
  float (*squared_error)(const float* a, const float* b, std::int64_t n);
  /// out = (a - b) * factor; out may be a.
  void (*scaled_difference)(const float* a, const float* b, float factor, float* out, std::int64_t n);
};

struct LayerNormRows {
  const float* x;
  const float *gamma, *beta;
  float *y, *mean, *rstd;
  std::int64_t rows, cols;
  float epsilon;
};

struct LayerNormBwdRows {
  const float *dy, *x, *gamma, *mean, *rstd;
  const float* dx_add;  // or null
  float* dx;
  float *dgamma, *dbeta;  // [cols]: += the sums over these rows
  std::int64_t rows, cols;
};

struct LayerNormNumerics {
  void (*fwd)(const LayerNormRows& rows);
  void (*bwd)(const LayerNormBwdRows& rows);
  void (*rms_fwd)(const LayerNormRows& rows);  // mean and beta are null
  void (*rms_bwd)(const LayerNormBwdRows& rows);
};

/// One head of one sample.
struct AttentionHead {
  Element element;        // of q, k, v, dout; out and the gradients have the same type, unrounded for kTf32
  const void *q, *k, *v;  // [T, head_dim] and [S, head_dim], rows `q_pitch` and `kv_pitch` elements apart
  std::int64_t q_pitch, kv_pitch;
  const void* out;  // [T, head_dim], rows `out_pitch` apart; the output of fwd
  std::int64_t out_pitch;
  std::int64_t num_queries, num_keys, head_dim;  // T and S; equal with `causal` and with key_bounds
  float scale;
  bool causal;
  float dropout_p;
  std::int64_t first_elem;  // index of this head's (0, 0) probability within its sample
  std::uint32_t sample;
  PhiloxKey key;
  const std::int32_t* key_bounds;  // [T, 2], or null; see [Note: documents of a row]
  std::int64_t window;             // 0: none; see [Note: sliding window]
};

struct AttentionFwdHead {
  AttentionHead head;
  void* out;
  float* lse;      // [T]
  float* scratch;  // scratch_floats(num_keys, head_dim)
};

/// `group` query heads that share one key and value head. `head` is the first. The others follow it in every
/// row of q, out, dout and dq, and in lse.
struct AttentionBwdHead {
  AttentionHead head;
  std::int64_t group;
  const void* dout;    // rows `out_pitch` apart
  const float* lse;    // [group, T]
  void *dq, *dk, *dv;  // rows `q_pitch` and `kv_pitch` apart
  float* scratch;
};

struct AttentionFwdNumerics {
  std::int64_t (*scratch_floats)(std::int64_t num_keys, std::int64_t head_dim);
  void (*run)(const AttentionFwdHead& head);
};

struct AttentionBwdNumerics {
  std::int64_t (*scratch_floats)(std::int64_t num_keys, std::int64_t head_dim);
  void (*run)(const AttentionBwdHead& head);
};

/// A row with several weighted targets or with label smoothing.
struct SoftTargets {
  const std::int32_t* targets;  // [count]; negative: ignored
  const float* weights;         // [count], or null: 1
  std::int64_t count;
  float smoothing;
};

struct CrossEntropyNumerics {
  /// Returns -log softmax(logits)[target]; with `write_gradient`, logits become
  /// (softmax(logits) - onehot(target)) * scale.
  float (*row)(float* logits, std::int64_t cols, std::int32_t target, float scale, bool write_gradient);
  /// The loss of SoftmaxCrossEntropyArgs for a row; with `write_gradient`, logits become its gradient times
  /// `scale`.
  float (*soft_row)(float* logits, std::int64_t cols, const SoftTargets& targets, float scale,
                    bool write_gradient);
  /// The maximum of a row, and the sum of exp(logit - max).
  void (*exp_sum)(const float* logits, std::int64_t cols, float& max, float& sum);
  /// a, b, out [2, rows]: maxima and sums. `out` may be a or b.
  void (*join_exp_sums)(const float* a, const float* b, float* out, std::int64_t rows);
  /// logits become exp(logit - max) * factor.
  void (*softmax)(float* logits, std::int64_t cols, float max, float factor);
};

/// Gates of neighbouring units: i at `data`, then f, g and o, each `pitch` floats further.
struct LstmGates {
  float* data;
  std::int64_t pitch;
};
struct ConstLstmGates {
  const float* data;
  std::int64_t pitch;
};

/// Units of one sample at one step.
struct LstmFwdCells {
  ConstLstmGates x, product, bias;  // product.data may be null: 0
  const float* c_before;            // or null: 0
  LstmGates gates;                  // may be x
  float *c, *h;
  std::int64_t units;
};
struct LstmBwdCells {
  ConstLstmGates gates;
  const float *c, *c_before;  // c_before may be null: 0
  const float *dh, *dh_next;  // of the output, and of the next step (or null: 0)
  float* dc;                  // of the next step; becomes the gradient of c_before
  LstmGates dgates;           // may be gates
  std::int64_t units;
};

struct LstmNumerics {
  void (*fwd)(const LstmFwdCells& cells);
  void (*bwd)(const LstmBwdCells& cells);
};

/// y[j * y_pitch + i] = x[i * x_pitch + j] for i < rows, j < cols.
struct TransposedRows {
  const void* x;
  Element element;
  std::int64_t x_pitch, rows, cols;
  float* y;
  std::int64_t y_pitch;
};

/// Conversion between fp32 and Element, rounding to nearest, ties to even. All instruction sets give the same
/// bits.
struct CastNumerics {
  void (*read)(const void* x, Element element, float* y, std::int64_t n);
  void (*write)(const float* x, Element element, void* y, std::int64_t n);
  void (*read_transposed)(const TransposedRows& rows);
};

struct AdamWRun {
  float *param, *exp_avg, *exp_avg_sq;
  const float* grad;
  std::int64_t n;
  float clip, beta1, beta2, epsilon;
  float decay;        // lr * weight_decay
  float step_size;    // lr / (1 - beta1^t)
  float rsqrt_bias2;  // 1 / sqrt(1 - beta2^t)
};

struct LionRun {
  float *param, *exp_avg;
  const float* grad;
  std::int64_t n;
  float clip, lr, beta1, beta2;
  float decay;  // lr * weight_decay
};

struct SgdRun {
  float* param;
  float* momentum_buffer;  // or null
  const float* grad;
  std::int64_t n;
  float clip, lr, momentum, weight_decay;
  bool first_step, nesterov;
};

struct OptimizerNumerics {
  void (*adamw)(const AdamWRun& run);
  void (*lion)(const LionRun& run);
  void (*sgd)(const SgdRun& run);
};

struct Numerics {
  const char* isa;
  const ActivationNumerics* activation;
  const ElementwiseNumerics* elementwise;
  const LayerNormNumerics* layer_norm;
  const AttentionFwdNumerics* attention_fwd;
  const AttentionBwdNumerics* attention_bwd;
  const CrossEntropyNumerics* cross_entropy;
  const CastNumerics* cast;
  const GemmNumerics* gemm;
  const OptimizerNumerics* optimizer;
  const BatchNormNumerics* batch_norm;
  const PoolNumerics* pool;
  const WinogradNumerics* winograd;
  const LstmNumerics* lstm;
  const GemmNumerics* bf16_gemm;  // for bf16 operands alone; `gemm` without bf16 instructions
};

/// The table for packed products of such elements.
const GemmNumerics& gemm_for(const Numerics& numerics, Element element);

/// The tables for this machine: the newest set that it supports and ONEDNN_MAX_CPU_ISA allows.
const Numerics& numerics();

/// All tables that this machine can run, newest first, terminated by null. For tests.
const Numerics* const* supported_numerics();

}  // namespace trireme::cpu

#if defined(TRIREME_ISA)
// In the files of isa/: the tables of the instruction set being compiled, each defined in the file of its
// name.
namespace trireme::cpu::TRIREME_ISA {

extern const ActivationNumerics activation_numerics;
extern const ElementwiseNumerics elementwise_numerics;
extern const LayerNormNumerics layer_norm_numerics;
extern const AttentionFwdNumerics attention_fwd_numerics;
extern const AttentionBwdNumerics attention_bwd_numerics;
extern const CrossEntropyNumerics cross_entropy_numerics;
extern const CastNumerics cast_numerics;
extern const GemmNumerics gemm_numerics;
extern const OptimizerNumerics optimizer_numerics;
extern const BatchNormNumerics batch_norm_numerics;
extern const PoolNumerics pool_numerics;
extern const WinogradNumerics winograd_numerics;
extern const LstmNumerics lstm_numerics;
extern const Numerics numerics;

}  // namespace trireme::cpu::TRIREME_ISA
#endif
