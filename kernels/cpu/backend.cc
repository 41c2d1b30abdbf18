// The cpu backend's table.
#include "kernels/backend.h"

#include <omp.h>

#include "kernels/cpu/conv/conv_primitives.h"
#include "kernels/cpu/memory/memory_source.h"
#include "kernels/cpu/ops.h"

namespace trireme {
namespace cpu {
namespace {

void synchronize(const KernelContext&) {}

std::shared_ptr<void> make_stream(Device, std::shared_ptr<Allocator>) {
  return std::make_shared<ConvPrimitives>();
}

// oneDNN and OpenMP read the setting of the thread that calls them.
void bind_thread(const KernelContext& exec) {
  omp_set_num_threads(exec.num_threads);
}

}  // namespace
}  // namespace cpu

const Backend& cpu_backend() {
  static constexpr Backend kBackend{
      .name = "cpu",
      .arithmetic = cpu::arithmetic,
      .make_memory_source = cpu::make_memory_source,
      .make_stream = cpu::make_stream,
      .copy_from_host = cpu::copy_from_host,
      .copy_to_host = cpu::copy_to_host,
      .copy = cpu::copy,
      .fill_zero = cpu::fill_zero,
      .synchronize = cpu::synchronize,
      .bind_thread = cpu::bind_thread,
      .matmul = cpu::matmul,
      .column_sum = cpu::column_sum,
      .activation_bwd = cpu::activation_bwd,
      .layer_norm_fwd = cpu::layer_norm_fwd,
      .layer_norm_bwd = cpu::layer_norm_bwd,
      .attention_fwd = cpu::attention_fwd,
      .attention_bwd = cpu::attention_bwd,
      .embedding_fwd = cpu::embedding_fwd,
      .embedding_bwd = cpu::embedding_bwd,
      .dropout = cpu::dropout,
      .softmax_cross_entropy = cpu::softmax_cross_entropy,
      .conv2d_fwd = cpu::conv2d_fwd,
      .conv2d_bwd_data = cpu::conv2d_bwd_data,
      .conv2d_bwd_weight = cpu::conv2d_bwd_weight,
      .batch_norm_fwd = cpu::batch_norm_fwd,
      .batch_norm_infer = cpu::batch_norm_infer,
      .batch_norm_bwd = cpu::batch_norm_bwd,
      .relu = cpu::relu,
      .relu_bwd = cpu::relu_bwd,
      .max_pool_fwd = cpu::max_pool_fwd,
      .max_pool_bwd = cpu::max_pool_bwd,
      .avg_pool_fwd = cpu::avg_pool_fwd,
      .avg_pool_bwd = cpu::avg_pool_bwd,
      .move_average = cpu::move_average,
      .add = cpu::add,
      .cast = cpu::cast,
      .scale = cpu::scale,
      .squared_norm_blocks = cpu::squared_norm_blocks,
      .clip_coefficient = cpu::clip_coefficient,
      .update_loss_scale = cpu::update_loss_scale,
      .adamw = cpu::adamw,
      .sgd = cpu::sgd,
  };
  return kBackend;
}

}  // namespace trireme
