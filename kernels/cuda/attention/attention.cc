// Attention: cuDNN for 16-bit types where it can, native (fallback) kernels for everything else.
#include <fmt/format.h>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/attention/repeated_heads.h"
#include "kernels/cuda/device/slow_paths.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

// True if cuDNN should be tried. Warns once per kind of problem when 16-bit attention falls back to native
// kernels. fp32 always runs on them, without a warning.
template <class Args>
bool is_for_library(const KernelContext& exec, const Args& args) {
  if (suits_attention_library(args)) return true;
  const DType dtype = args.out.dtype;
  if (size_bytes(dtype) != 2 || args.out.num_elems() == 0) return false;
  const std::int64_t head_dim = args.out.shape[2] / args.num_heads;
  std::string problem = fmt::format("of heads of {} elements, no multiple of 8", head_dim);
  if constexpr (requires { args.key_bounds; }) {
    if (args.key_bounds.defined()) problem = "within documents of a row";
    if (hides_keys(args)) problem = "in a sliding window";
    if (args.dropout_p > 0.0f) problem = "with dropout";
  }
  stream_of(exec).slow_paths().tell(fmt::format("{} attention {}", name(dtype), problem),
                                    "the slower native kernel runs");
  return false;
}

// The part of a tensor that holds samples [first, first + count). Attention's tensors have three dims.
template <class View>
View samples_of(View view, std::int64_t first, std::int64_t count) {
  if (!view.defined()) return view;
  const std::int64_t sample_bytes = view.num_elems() / view.shape[0] * size_bytes(view.dtype);
  view.data = view.template as<char>() + first * sample_bytes;
  view.shape = {count, view.shape[1], view.shape[2]};
  return view;
}

// See [Note: grouped queries on cuda].
bool run_library_fwd(const KernelContext& exec, const AttentionFwdArgs& args) {
  AttentionLibrary& library = stream_of(exec).attention_library();
  const PackedHeads heads = packed_heads(args);
  if (library.run_fwd(args)) return true;
  if (heads.group() == 1 || !AttentionLibrary::exists()) return false;
  const Workspace rows(exec,
                       static_cast<std::size_t>(repeated_heads_bytes(args.qkv, heads, args.qkv.shape[0])));
  const RepeatedHeads repeated{.rows = rows.as<void>()};
  repeat_heads(exec, args.qkv, heads, repeated.rows);
  return library.run_fwd(args, &repeated);
}

bool run_library_bwd(const KernelContext& exec, const AttentionBwdArgs& args) {
  AttentionLibrary& library = stream_of(exec).attention_library();
  const PackedHeads heads = packed_heads(args);
  const AttentionPart part = attention_part(args);
  if (library.run_bwd(args)) return true;
  if (heads.group() == 1 || !AttentionLibrary::exists() || !goes_in_parts(args, part)) return false;
  const std::int64_t samples = copied_samples(heads, part);
  const auto bytes = static_cast<std::size_t>(repeated_heads_bytes(args.qkv, heads, samples));
  const Workspace rows(exec, bytes), gradients(exec, bytes);
  const RepeatedHeads repeated{.rows = rows.as<void>(), .gradients = gradients.as<void>()};
  for (std::int64_t first = 0; first < args.qkv.shape[0]; first += samples) {
    AttentionBwdArgs some = args;
    visit_views(some, [&](auto& view, ViewUse) { view = samples_of(view, first, samples); });
    repeat_heads(exec, some.qkv, heads, repeated.rows);
    if (!library.run_bwd(some, &repeated)) return false;
    add_repeated(exec, repeated.gradients, heads, some.dqkv);
  }
  return true;
}

}  // namespace

void run_op(const KernelContext& exec, const AttentionFwdArgs& args) {
  if (is_for_library(exec, args) && run_library_fwd(exec, args)) return;
  native_attention_fwd(exec, args);
}

void run_op(const KernelContext& exec, const AttentionBwdArgs& args) {
  if (is_for_library(exec, args) && run_library_bwd(exec, args)) return;
  native_attention_bwd(exec, args);
}

void run_op(const KernelContext& exec, const CrossAttentionFwdArgs& args) {
  if (is_for_library(exec, args) && stream_of(exec).attention_library().run_fwd(args)) return;
  native_attention_fwd(exec, args);
}

void run_op(const KernelContext& exec, const CrossAttentionBwdArgs& args) {
  if (is_for_library(exec, args) && stream_of(exec).attention_library().run_bwd(args)) return;
  native_attention_bwd(exec, args);
}

}  // namespace trireme::cuda
