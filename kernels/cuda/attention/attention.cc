// Attention: the library's kernels for 16-bit types where it has them, the own ones for everything else.
#include <fmt/format.h>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/device/slow_paths.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

// What is no library's in 16 bits is said; fp32 never is.
template <class Args>
bool is_for_library(const KernelContext& exec, const Args& args) {
  if (suits_attention_library(args)) return true;
  if (size_bytes(args.qkv.dtype) != 2 || args.qkv.num_elems() == 0) return false;
  const std::string problem =
      args.dropout_p > 0.0f ? "with dropout"
      : args.key_bounds.defined()
          ? "within documents of a row"
          : fmt::format("of heads of {} elements, no multiple of 8", args.qkv.shape[2] / 3 / args.num_heads);
  stream_of(exec).slow_paths().tell(fmt::format("{} attention {}", name(args.qkv.dtype), problem),
                                    "the slower native kernel runs");
  return false;
}

}  // namespace

void run_op(const KernelContext& exec, const AttentionFwdArgs& args) {
  if (is_for_library(exec, args) && stream_of(exec).attention_library().run_fwd(args)) return;
  native_attention_fwd(exec, args);
}

void run_op(const KernelContext& exec, const AttentionBwdArgs& args) {
  if (is_for_library(exec, args) && stream_of(exec).attention_library().run_bwd(args)) return;
  native_attention_bwd(exec, args);
}

}  // namespace trireme::cuda
