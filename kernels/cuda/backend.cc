// The cuda backend's table.
#include "kernels/backend.h"

#include "kernels/cuda/device/device_report.h"
#include "kernels/cuda/device/memory_source.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/ops.h"

namespace trireme {

const Backend& cuda_backend() {
  static constexpr Backend kBackend{
      .name = "cuda",
      .examine_devices = cuda::examine_devices,
      .make_memory_source = cuda::make_memory_source,
      .make_stream = cuda::make_stream,
      .make_host_copy = cuda::make_host_copy,
      .native_stream = cuda::native_stream,
      .copy_from_host = cuda::copy_from_host,
      .copy_to_host = cuda::copy_to_host,
      .copy = cuda::copy,
      .fill_zero = cuda::fill_zero,
      .synchronize = cuda::synchronize,
      .begin_capture = cuda::begin_capture,
      .end_capture = cuda::end_capture,
      .launch_graph = cuda::launch_graph,
      .bind_thread = cuda::bind_thread,
      .matmul = cuda::matmul,
      .column_sum = cuda::column_sum,
      .activation_bwd = cuda::activation_bwd,
      .layer_norm_fwd = cuda::layer_norm_fwd,
      .layer_norm_bwd = cuda::layer_norm_bwd,
      .attention_fwd = cuda::attention_fwd,
      .attention_bwd = cuda::attention_bwd,
      .embedding_fwd = cuda::embedding_fwd,
      .embedding_bwd = cuda::embedding_bwd,
      .dropout = cuda::dropout,
      .softmax_cross_entropy = cuda::softmax_cross_entropy,
      .conv2d_fwd = cuda::conv2d_fwd,
      .conv2d_bwd_data = cuda::conv2d_bwd_data,
      .conv2d_bwd_weight = cuda::conv2d_bwd_weight,
      .batch_norm_fwd = cuda::batch_norm_fwd,
      .batch_norm_infer = cuda::batch_norm_infer,
      .batch_norm_bwd = cuda::batch_norm_bwd,
      .relu = cuda::relu,
      .relu_bwd = cuda::relu_bwd,
      .max_pool_fwd = cuda::max_pool_fwd,
      .max_pool_bwd = cuda::max_pool_bwd,
      .avg_pool_fwd = cuda::avg_pool_fwd,
      .avg_pool_bwd = cuda::avg_pool_bwd,
      .move_average = cuda::move_average,
      .add = cuda::add,
      .cast = cuda::cast,
      .scale = cuda::scale,
      .squared_norm_blocks = cuda::squared_norm_blocks,
      .clip_coefficient = cuda::clip_coefficient,
      .update_loss_scale = cuda::update_loss_scale,
      .adamw = cuda::adamw,
      .sgd = cuda::sgd,
  };
  return kBackend;
}

}  // namespace trireme
